"""Requests to erase a task: which one counts, when it begins, and what it removes."""

from datetime import timedelta

import pytest

from roboco.domain.paths import (
    CLOSED,
    closing_marker,
    erasure_path,
    open_marker_path,
    tombstone_path,
)
from roboco.engine.operate.erase import STOP_TIMEOUT, erase_task
from tests.support.memory_ports.journeys import GRAPH
from tests.support.memory_ports.world import TASK, world_parts
from tests.unit.engine.accept.test_fork import FORK, fork_task
from tests.unit.engine.coordinate.test_delegate import script as delegating
from tests.unit.engine.coordinate.test_delegate import team as delegating_team
from tests.unit.engine.removal.object_world import ObjectWorld


def ended_task() -> ObjectWorld:
    world = ObjectWorld(world_parts(GRAPH.script))
    world.submit(GRAPH.team)
    world.settle()
    return world


def finish(world: ObjectWorld, task_id: str = TASK, seconds: float = 5.0) -> None:
    """Sweep until the receipt is finished."""
    world.sweep_until(
        lambda: tombstone_path(task_id) in world.files.held and world.receipt(task_id).finished_at is not None, seconds
    )


def test_a_weaker_request_changes_nothing() -> None:
    world = ended_task()
    fork_task(world)
    world.settle(FORK)
    world.erase(forks="erase", stop=True)
    stored = world.files.held[erasure_path(TASK)]
    world.erase(forks="keep")
    assert world.files.held[erasure_path(TASK)] == stored


def test_a_stronger_request_keeps_what_the_first_one_removes() -> None:
    world = ended_task()
    fork_task(world)
    world.settle(FORK)
    world.erase(forks="keep", stop=True)
    world.erase(forks="erase")
    finish(world)
    finish(world, FORK)
    assert world.receipt().forks_erased


@pytest.mark.parametrize("marker", [CLOSED, closing_marker(7)])
def test_an_erasure_waits_until_the_task_is_closed(marker: bytes) -> None:
    world = ended_task()
    world.files.held[open_marker_path(TASK)] = marker
    world.engine.tasks.schedule.remove(TASK)
    world.erase()
    erase_task(world.engine, TASK)
    assert world.receipt().finished_at is None
    assert world.history()
    del world.files.held[open_marker_path(TASK)]
    world.clock.move(30)
    finish(world)
    assert world.traces() == []


def test_a_process_carries_out_a_few_erasures_at_a_time() -> None:
    world = ended_task()
    world.erase()
    while world.engine.process.erasure_slots.acquire(blocking=False):
        pass
    world.sweep()
    assert tombstone_path(TASK) not in world.files.held
    world.engine.process.erasure_slots.release()
    finish(world, seconds=31)


def test_a_sub_task_that_starts_after_the_erasure_of_its_parent_is_erased() -> None:
    world = ObjectWorld(world_parts(delegating))
    world.submit(delegating_team())
    erased: list[str] = []

    def erase_before_the_sub_task(name: str, call: object) -> object:
        if name == "files.create" and "/team.json" in str(call.args) and TASK + "." in str(call.args) and not erased:  # type: ignore[attr-defined]
            erased.append(str(call.args[0]).partition("/")[0])  # type: ignore[attr-defined]
            world.watch = lambda name, call: call()
            world.erase(stop=True, requested_at=world.engine.now() - timedelta(seconds=STOP_TIMEOUT))
            erase_task(world.engine, TASK)
        return call()  # type: ignore[operator]

    world.watch = erase_before_the_sub_task
    world.drain()
    assert erased
    world.sweep_until(lambda: world.traces(erased[0]) == [], 30.0)
    assert world.receipt(erased[0]).status == "erased"
