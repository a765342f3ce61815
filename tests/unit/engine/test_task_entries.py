"""The task index follows the status of each task, and never fails a task."""

from typing import Any

from roboco.domain.paths import open_marker_path
from roboco.domain.status import TaskStatus
from roboco.domain.task_entry import TaskEntry
from roboco.domain.task_filter import TaskFilter
from roboco.engine.coordinate.advance import advance
from roboco.engine.coordinate.archive import INDEX_RETRY_DELAY
from roboco.errors import TransientError
from tests.support.memory_ports.journeys import SEQUENTIAL
from tests.support.memory_ports.task_index import MemoryTaskIndex
from tests.support.memory_ports.watch import PortCall
from tests.support.memory_ports.world import TASK, World


def entry_in(world: World, task_id: str = TASK) -> TaskEntry | None:
    """Return the task's entry in the index."""
    found = MemoryTaskIndex(world.server, world.clock).page(TaskFilter(), "", 1000).entries
    return next((one for one in found if one.task_id == task_id), None)


def status_in(world: World) -> TaskStatus | None:
    """Return the task's status in the index."""
    found = entry_in(world)
    return None if found is None else found.status


def without_index(name: str, call: PortCall) -> Any:
    """Raise TransientError in place of each call of the task index."""
    if name.startswith("task_index."):
        raise TransientError("the index does not answer")
    return call()


def test_the_sweeper_repairs_the_entry_of_a_running_task() -> None:
    world = SEQUENTIAL.world()
    world.submit(SEQUENTIAL.team, at_once=True)
    before = entry_in(world)
    world.server.held.entries.clear()
    advance(world.engine, TASK, by_sweeper=True)
    after = entry_in(world)
    assert before is not None
    assert after is not None
    assert (after.status, after.team, after.title) == (before.status, before.team, before.title)


def test_the_end_is_entered_once_the_index_answers_again() -> None:
    answers = False

    def watch(name: str, call: PortCall) -> Any:
        return call() if answers else without_index(name, call)

    world = SEQUENTIAL.world(watch)
    world.submit(SEQUENTIAL.team, at_once=True)
    world.drain()
    assert open_marker_path(TASK) not in world.files.held
    assert (status_in(world), list(world.server.held.schedule)) == (None, [TASK])
    answers = True
    world.clock.move(INDEX_RETRY_DELAY)
    world.sweep()
    assert (status_in(world), list(world.server.held.schedule)) == (TaskStatus.COMPLETED, [])
