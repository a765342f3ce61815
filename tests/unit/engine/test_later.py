"""Tasks that begin later, and those for which there is no room."""

from datetime import timedelta
from typing import Any

import pytest

from roboco.domain.inbox.item import Stop
from roboco.domain.status import TaskStatus
from roboco.engine.engine import Policy
from roboco.errors import Overloaded, UsageError
from tests.support.memory_ports.dispatcher import ToolMessage, TurnMessage
from tests.support.memory_ports.journeys import SEQUENTIAL, assert_whole
from tests.support.memory_ports.model import said
from tests.support.memory_ports.watch import Crash
from tests.support.memory_ports.world import SWEEP_INTERVAL, TASK, World, given, team_of

TEAM = team_of(agents=[{"name": "one", "prompt": "hi"}])


def world_of(**policy: Any) -> World:
    return World(given(lambda request: said("done"), policy=Policy(**policy)))


def wait(world: World, seconds: float) -> None:
    """Let so many seconds pass, with looks of the sweeper."""
    until = world.clock.now() + seconds
    while world.clock.now() < until - SWEEP_INTERVAL:
        world.sweep()
        world.drain()


@pytest.mark.parametrize("wiped", [False, True])
def test_a_task_begins_when_it_was_to(wiped: bool) -> None:
    world = world_of()
    submitted = world.clock.now()
    world.submit(TEAM, countdown=30)
    world.drain()
    if wiped:
        world.server.wipe()
    wait(world, 28)
    assert world.history()[1:] == []
    assert world.status() is TaskStatus.QUEUED
    wait(world, 4)
    assert world.status() is TaskStatus.COMPLETED
    assert (world.history()[1].created_at - world.engine.time_at(submitted)).total_seconds() == pytest.approx(30, abs=2)
    assert_whole(world, "")


def test_the_time_of_its_limits_begins_with_it() -> None:
    world = world_of()
    limits = {"max_seconds": 5}
    eta = world.engine.time_at(world.clock.now()) + timedelta(seconds=60)
    world.submit(SEQUENTIAL.team.model_copy(update={"limits": TEAM.limits.with_overrides(limits)}), eta=eta.isoformat())
    wait(world, 70)
    assert world.status() is TaskStatus.COMPLETED


def test_it_can_be_stopped_before_and_hears_messages_when_it_begins() -> None:
    world = world_of()
    world.submit(TEAM, countdown=30)
    world.send("and this")
    world.drain()
    assert world.pending_item_ids() == ["item1"]
    world.stop()
    world.settle()
    assert world.status() is TaskStatus.CANCELLED
    other = world_of()
    other.submit(TEAM, countdown=30)
    other.send("and this")
    other.drain()
    wait(other, 33)
    assert [step.text for step in other.history()] == ["go", "and this", "done"]
    assert Stop not in map(type, other.pending_item_ids())


def test_the_same_submission_later_is_the_same_task() -> None:
    world = world_of()
    world.submit(TEAM, countdown=30)
    wait(world, 10)
    world.submit(TEAM, countdown=30)
    wait(world, 22)
    assert world.status() is TaskStatus.COMPLETED
    with pytest.raises(UsageError, match="was submitted before"):
        world.submit(TEAM, countdown=31)


@pytest.mark.parametrize(
    ("wished", "told"),
    [
        ({"eta": "tomorrow"}, "eta: must be a time such as"),
        ({"eta": "2027-03-01T08:00:00"}, "eta: needs a time zone"),
        ({"eta": "2099-03-01T08:00:00Z"}, "eta: is more than a year away"),
        ({"eta": "2027-03-01T08:00:00Z", "countdown": 3}, "eta: name either"),
    ],
)
def test_what_cannot_be_wished(wished: dict[str, Any], told: str) -> None:
    world = world_of()
    with pytest.raises(UsageError, match=told):
        world.submit(TEAM, **wished)
    assert world.engine.files.names("") == []


def test_a_time_that_has_passed_is_now() -> None:
    world = world_of()
    world.submit(TEAM, eta="2020-01-01T00:00:00+01:00")
    world.settle()
    assert world.status() is TaskStatus.COMPLETED


def test_no_new_task_is_taken_when_too_much_waits() -> None:
    world = world_of(max_queued=2)
    for number in range(2):
        world.submit(TEAM, task_id=f"task_{number}")
    with pytest.raises(Overloaded, match="2 turns wait for workers, at most 2 may"):
        world.submit(TEAM, task_id="task_2")
    assert "task_2" not in world.engine.files.names("")
    world.submit(TEAM, task_id="task_1")
    world.settle("task_1")
    world.submit(TEAM, task_id="task_2")
    world.settle("task_2")
    assert world.status("task_2") is TaskStatus.COMPLETED


def test_priority_is_that_of_all_its_messages() -> None:
    calls = [("add", {"a": 1, "b": 2})]
    tools = [{"name": "add", "function": "shop.a:add", "effect": "pure"}]
    world = World(given(lambda request: said("", *calls) if len(request.messages) < 3 else said("done"), {"add": len}))
    world.submit(team_of(agents=[{"name": "one", "prompt": "hi", "tools": ["add"]}], tools=tools), priority="low")

    def die(name: str, call: Any) -> Any:
        if name in ("model.stream", "toolbox.run"):
            world.watch = lambda _, call: call()
            raise Crash
        return call()

    world.watch = die
    world.settle()
    orders = [message.assignment for message in world.dispatcher.sent if isinstance(message, TurnMessage | ToolMessage)]
    assert len(orders) > 3
    assert {order.priority for order in orders} == {"low"}
    assert world.status() is TaskStatus.COMPLETED
    assert TASK in {order.task_id for order in orders}
