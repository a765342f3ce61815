"""A `task.json` that cannot be read: it is a derived file, so it is computed or written again."""

import pytest

from roboco.domain.paths import CLOSED, events_path, open_marker_path, summary_path
from roboco.domain.status import TaskStatus
from roboco.domain.task_summary import TaskSummary
from roboco.engine.coordinate import archive
from roboco.errors import CorruptHistory
from tests.support.memory_ports.journeys import MANUAL, SEQUENTIAL
from tests.support.memory_ports.model import says
from tests.support.memory_ports.world import TASK, World, world_parts

COMPARED_FIELDS = {
    "team",
    "status",
    "reason",
    "steps",
    "tokens_in",
    "tokens_out",
    "cost",
    "agents",
    "tools",
    "limit_overrides",
    "created_at",
}
TORN_SUMMARIES = [b"", b'{"task_id":"ta', b"\x00" * 64, b"[]"]


def ended_world() -> World:
    return SEQUENTIAL.run(SEQUENTIAL.world())


def waiting_world() -> World:
    world = World(world_parts(lambda request: says("text")))
    world.submit(MANUAL.team)
    world.settle()
    return world


def tear_summary(world: World, data: bytes = TORN_SUMMARIES[1]) -> TaskSummary:
    """Replace the summary by these bytes. Return the previous summary."""
    before = world.summary()
    world.files.held[summary_path(TASK)] = data
    return before


@pytest.mark.parametrize("torn", TORN_SUMMARIES)
def test_the_summary_of_an_ended_task_is_computed_again(torn: bytes) -> None:
    world = ended_world()
    before = tear_summary(world, torn)
    assert world.engine.workspace.summaries.require(TASK).model_dump(include=COMPARED_FIELDS) == before.model_dump(
        include=COMPARED_FIELDS
    )
    assert world.engine.workspace.summaries.is_closed(TASK)
    assert world.files.held[summary_path(TASK)] == torn, "a reader writes nothing"


def test_the_summary_of_an_open_task_is_computed_and_written_again() -> None:
    world = waiting_world()
    tear_summary(world)
    found = world.engine.workspace.summaries.require(TASK)
    assert (found.status, found.steps) == (TaskStatus.RUNNING, 2)
    world.send("more")
    world.settle()
    assert (world.summary().status, world.summary().steps) == (TaskStatus.USER_TURN, 4)
    assert not world.failures


@pytest.mark.parametrize("marker", [None, CLOSED])
def test_a_late_worker_does_not_replace_a_summary_that_may_be_of_a_closed_task(marker: bytes | None) -> None:
    world = waiting_world()
    late = world.engine.tasks.task_store.load(TASK, 1)
    assert late is not None
    tear_summary(world)
    del world.files.held[open_marker_path(TASK)]
    if marker is not None:
        world.files.held[open_marker_path(TASK)] = marker
    archive.archive(world.engine, TASK, late)
    assert world.files.held[summary_path(TASK)] == TORN_SUMMARIES[1]


def test_the_error_for_a_missing_end_event_names_the_files_and_the_remedy() -> None:
    world = ended_world()
    tear_summary(world)
    quoting = b'{"type":"event_error","code":"x","message":"\\"event_task_end\\"","task_id":"a","seq":1}\n'
    world.files.held[events_path(TASK)] = quoting
    with pytest.raises(CorruptHistory) as raised:
        world.engine.workspace.summaries.get(TASK)
    for part in (summary_path(TASK), events_path(TASK), "cannot be read", "restore these files from a backup"):
        assert part in str(raised.value)
