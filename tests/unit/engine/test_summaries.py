"""A `task.json` that cannot be read: that of an open task is written again."""

import pytest

from roboco.domain.paths import CLOSED, open_marker_path, summary_path
from roboco.domain.status import TaskStatus
from roboco.engine.coordinate import archive
from roboco.errors import CorruptHistory
from tests.support.memory_ports.journeys import MANUAL, SEQUENTIAL
from tests.support.memory_ports.model import says
from tests.support.memory_ports.world import TASK, World, world_parts

TORN_SUMMARIES = [b"", b'{"task_id":"ta', b"\x00" * 64, b"[]"]


def waiting_world() -> World:
    world = World(world_parts(lambda request: says("text")))
    world.submit(MANUAL.team)
    world.settle()
    return world


def tear_summary(world: World, data: bytes = TORN_SUMMARIES[1]) -> None:
    """Replace the summary by these bytes."""
    world.files.held[summary_path(TASK)] = data


@pytest.mark.parametrize("torn", TORN_SUMMARIES)
def test_a_summary_of_an_ended_task_that_cannot_be_read_names_the_remedy(torn: bytes) -> None:
    world = SEQUENTIAL.run(SEQUENTIAL.world())
    tear_summary(world, torn)
    with pytest.raises(CorruptHistory, match=r"task\.json' cannot be read: restore it from a backup"):
        world.engine.workspace.summaries.require(TASK)


def test_the_summary_of_an_open_task_is_written_again() -> None:
    world = waiting_world()
    tear_summary(world)
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
