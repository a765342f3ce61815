"""Tasks that start later, and tasks that are refused for lack of capacity."""

from typing import Any

import pytest

from roboco.domain.status import TaskStatus
from roboco.engine.accept.fork import ForkRequest, fork
from roboco.engine.engine import Policy
from roboco.errors import Overloaded, UsageError
from tests.support.memory_ports.dispatcher import ToolMessage, TurnMessage
from tests.support.memory_ports.journeys import assert_whole
from tests.support.memory_ports.model import says
from tests.support.memory_ports.task_store import MemoryTaskStore
from tests.support.memory_ports.watch import Crash
from tests.support.memory_ports.world import SWEEP_INTERVAL, TASK, World, team_of, world_parts

TEAM = team_of(agents=[{"name": "one", "prompt": "hi"}])


def world_with_policy(**policy: Any) -> World:
    return World(world_parts(lambda request: says("done"), policy=Policy(**policy)))


def sweep_for(world: World, seconds: float) -> None:
    """Let this time pass, with passes of the sweeper."""
    until = world.clock.now() + seconds
    while world.clock.now() < until - SWEEP_INTERVAL:
        world.sweep()
        world.drain()


@pytest.mark.parametrize("wiped", [False, True])
def test_a_task_starts_after_its_countdown(wiped: bool) -> None:
    world = world_with_policy()
    submitted = world.clock.now()
    world.submit(TEAM, countdown=30)
    world.drain()
    if wiped:
        world.server.wipe()
    sweep_for(world, 28)
    assert world.history()[1:] == []
    assert world.status() is TaskStatus.QUEUED
    sweep_for(world, 4)
    assert world.status() is TaskStatus.COMPLETED
    assert (world.history()[1].created_at - world.engine.time_at(submitted)).total_seconds() == pytest.approx(30, abs=2)
    assert_whole(world, "")


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"eta": "tomorrow"}, "eta: must be a time such as"),
        ({"eta": "2099-03-01T08:00:00Z"}, "eta: is more than a year away"),
        ({"eta": "2027-03-01T08:00:00Z", "countdown": 3}, "eta: name either"),
    ],
)
def test_an_invalid_start_time_is_refused(options: dict[str, Any], error: str) -> None:
    with pytest.raises(UsageError, match=error):
        world_with_policy().submit(TEAM, **options)


def test_a_new_task_is_refused_when_the_queue_is_full() -> None:
    world = world_with_policy(max_queued=2)
    for number in range(2):
        world.submit(TEAM, task_id=f"task_{number}")
    with pytest.raises(Overloaded, match="2 turns wait for workers or their start time, at most 2 may"):
        world.submit(TEAM, task_id="task_2")
    assert "task_2" not in world.engine.workspace.files.names("")
    world.submit(TEAM, task_id="task_1")
    world.settle("task_1")
    world.submit(TEAM, task_id="task_2")
    world.settle("task_2")
    assert world.status("task_2") is TaskStatus.COMPLETED


def test_tasks_that_start_later_count_as_waiting() -> None:
    world = world_with_policy(max_queued=2)
    for number in range(2):
        world.submit(TEAM, task_id=f"task_{number}", countdown=86_400)
        world.drain()
    with pytest.raises(Overloaded, match="2 turns wait"):
        world.submit(TEAM, task_id="task_2")


def test_a_new_task_is_refused_while_redis_is_nearly_full(monkeypatch: pytest.MonkeyPatch) -> None:
    world = world_with_policy()
    world.submit(TEAM)
    monkeypatch.setattr(MemoryTaskStore, "memory_share", lambda *_: 0.8)
    with pytest.raises(Overloaded, match="Redis uses 80% of its memory"):
        world.submit(TEAM, task_id="task_2")
    with pytest.raises(Overloaded):
        fork(world.engine, ForkRequest(TASK, "task_2"))
    assert "task_2" not in world.engine.workspace.files.names("")
    world.submit(TEAM)
    world.settle()
    assert world.status() is TaskStatus.COMPLETED


def test_all_messages_of_a_task_have_its_priority() -> None:
    calls = [("add", {"a": 1, "b": 2})]
    tools = [{"name": "add", "function": "shop.a:add", "effect": "pure"}]
    world = World(
        world_parts(lambda request: says("", *calls) if len(request.messages) < 3 else says("done"), {"add": len})
    )
    world.submit(team_of(agents=[{"name": "one", "prompt": "hi", "tools": ["add"]}], tools=tools), priority="low")

    def crash_once(name: str, call: Any) -> Any:
        if name in ("model.stream", "toolbox.run"):
            world.watch = lambda _, call: call()
            raise Crash
        return call()

    world.watch = crash_once
    world.settle()
    orders = [message.assignment for message in world.dispatcher.sent if isinstance(message, TurnMessage | ToolMessage)]
    assert len(orders) > 3
    assert {order.priority for order in orders} == {"low"}
    assert world.status() is TaskStatus.COMPLETED
    assert TASK in {order.task_id for order in orders}
