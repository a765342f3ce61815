"""recover: the state of a task in the task store is rebuilt from the workspace."""

from typing import Any

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
