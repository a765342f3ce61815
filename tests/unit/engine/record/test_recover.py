"""recover: the state of a task in the task store is rebuilt from the workspace."""

import json
from typing import Any

from roboco.domain.paths import summary_path
from tests.support.memory_ports.model import says
from tests.support.memory_ports.task_store import MemoryTaskStore
from tests.support.memory_ports.watch import make_call
from tests.support.memory_ports.world import TASK, World, team_of, world_parts


def test_recovery_restores_the_inbox_before_the_task() -> None:
    """A worker that finds the task at the first possible moment must also find its inbox items."""
    world = World(world_parts(lambda request: says("done")))
    world.submit(team_of(agents=[{"name": "a", "prompt": "p"}], collaboration_model={"type": "manual"}))
    world.settle()
    world.send("more", "item1")
    world.server.wipe()
    found: list[tuple[str, ...]] = []

    def load_after_create(name: str, call: Any) -> Any:
        answer = call()
        if name == "task_store.create":
            task = MemoryTaskStore(world.server, world.clock).load(TASK, 1)
            assert task is not None
            found.append(task.item_ids)
        return answer

    world.watch = load_after_create
    world.drain()
    world.sweep()
    world.watch = make_call
    assert found == [("item1",)]


def test_a_rebuilt_task_has_a_later_epoch_than_the_lost_one_although_the_clock_was_set_back() -> None:
    world = World(world_parts(lambda request: says("done")))
    world.submit(team_of(agents=[{"name": "a", "prompt": "p"}], collaboration_model={"type": "manual"}))
    world.settle()
    record = json.loads(world.files.held[summary_path(TASK)])
    lost = record["epoch"] = record["epoch"] + 3_600_000  # Redis' clock was ahead by an hour
    world.files.held[summary_path(TASK)] = json.dumps(record).encode()
    world.server.wipe()
    world.send("more", "item1")
    world.drain()
    task = world.engine.tasks.task_store.load(TASK, 1)
    assert task is not None
    assert task.position.epoch > lost
