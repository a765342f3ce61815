"""Backup and restore: copies of a workspace in use are enough, with an empty Redis."""

import pytest

from roboco.domain.history.step import verify_chain
from roboco.domain.paths import OPEN_MARKERS, open_marker_path
from tests.support.memory_ports.journeys import GRAPH, SEQUENTIAL, TOOLS, Journey
from tests.support.memory_ports.world import TASK, World, world_parts
from tests.support.selection import PARTS, in_parts
from tests.unit.engine.removal.object_world import ObjectWorld


def new_world(journey: Journey) -> ObjectWorld:
    return ObjectWorld(world_parts(journey.script, journey.functions, journey.routers))


def copy(world: World, backup: dict[str, bytes], markers: bool) -> None:
    """Copy all markers or all other files, without deleting in the copy."""
    backup |= {path: data for path, data in world.files.held.items() if path.startswith(OPEN_MARKERS) == markers}


def work(world: World, messages: int) -> None:
    for _ in range(messages):
        if world.dispatcher.queue:
            world.deliver(world.dispatcher.queue.popleft())


@pytest.mark.parametrize("journey", [GRAPH, SEQUENTIAL, TOOLS], ids=["graph", "sequential", "tools"])
@pytest.mark.parametrize("between", [0, 1, 2, 5])
@in_parts
def test_a_copy_of_running_tasks_continues_in_an_empty_redis(journey: Journey, between: int, part: int) -> None:
    for before in range((part + between) % PARTS, 12, PARTS):
        world, backup = new_world(journey), dict[str, bytes]()
        world.submit(journey.team, at_once=True)
        work(world, before)
        copy(world, backup, markers=True)
        work(world, between)
        copy(world, backup, markers=False)
        world.engine.workspace.histories.compact(TASK)
        work(world, between)
        copy(world, backup, markers=False)
        restored = new_world(journey)
        for path, data in backup.items():
            restored.objects.put(path, data)  # without the metadata, which a copy through a file loses
        restored.server.wipe()
        if open_marker_path(TASK) in backup:
            restored.settle()
        verify_chain(restored.histories.lines(TASK))
        assert len(restored.history()) >= len([path for path in backup if "/history/" in path])
        assert restored.is_settled() or restored.summary().status.ended
