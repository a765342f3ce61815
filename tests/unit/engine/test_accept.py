"""accept: an external item counts exactly once, whenever it arrives."""

from typing import Any

import pytest

from roboco.domain.history.step import TaskStep
from roboco.domain.inbox.item import UserMessage
from roboco.domain.limits import Limits
from roboco.domain.status import TaskStatus
from roboco.engine.accept.accept_item import CHECK_DELAY, accept_item
from roboco.errors import UsageError
from roboco.ports.model import Request
from tests.support.memory_ports.journeys import GRAPH, MANUAL, SEQUENTIAL
from tests.support.memory_ports.model import ScriptedReply, says
from tests.support.memory_ports.watch import Crash, refusing
from tests.support.memory_ports.world import TASK, World, world_parts


def waiting_task() -> World:
    """Return the world of the manual team after the helper's first answer."""
    world = MANUAL.world()
    world.submit(MANUAL.team.model_copy(update={"limits": Limits(max_steps=1000)}))
    world.settle()
    assert world.status() is TaskStatus.USER_TURN
    return world


def crash() -> None:
    raise Crash


def agents_of_steps(world: World) -> list[str]:
    return [step.agent_name for step in world.history()]


def texts_of_user(world: World) -> list[str]:
    return [step.text for step in world.history() if step.agent_name == "user"]


def test_a_message_wakes_a_waiting_task() -> None:
    world = waiting_task()
    world.send("more")
    world.settle()
    assert agents_of_steps(world) == ["user", "helper", "user", "helper"]
    assert world.history()[2].metadata["item_id"] == "item1"
    assert world.history()[3].text == "helper answers more"


@pytest.mark.parametrize("again", ["at once", "after it was taken", "after 100 others"])
def test_a_repeated_message_counts_once(again: str) -> None:
    world = waiting_task()
    world.send("more", "first")
    if again != "at once":
        world.settle()
    for n in range(100 if again == "after 100 others" else 0):
        world.send(f"other {n}", f"other{n}")
    world.settle()
    world.send("more", "first")
    world.settle()
    assert texts_of_user(world).count("more") == 1


def test_a_message_during_a_turn_waits_for_its_end() -> None:
    worlds: list[World] = []

    def script(request: Request) -> ScriptedReply:
        if not worlds[0].history()[1:]:
            return ScriptedReply(("one ", "two"), meanwhile=lambda: worlds[0].send("hurry"))
        return says("again")

    worlds.append(World(world_parts(script)))
    worlds[0].submit(MANUAL.team)
    worlds[0].settle()
    assert agents_of_steps(worlds[0]) == ["user", "helper", "user", "helper"]
    assert worlds[0].history()[1].text == "one two"


@pytest.mark.parametrize("task_id", ["task_1", "unknown"])
def test_a_message_to_an_ended_or_unknown_task_is_refused(task_id: str) -> None:
    world = SEQUENTIAL.world()
    world.submit(SEQUENTIAL.team)
    world.settle()
    files = dict(world.files.held)
    with pytest.raises(UsageError, match="has ended \\(completed\\)" if task_id == TASK else "no task 'unknown'"):
        accept_item(world.engine, task_id, UserMessage(item_id="i", created_at=world.engine.now(), text="x"))
    assert world.files.held == files


def test_a_message_for_an_unknown_agent_is_refused() -> None:
    world = waiting_task()
    files = dict(world.files.held)
    item = UserMessage(item_id="i", created_at=world.engine.now(), text="x", agent="absent")
    with pytest.raises(UsageError, match="no agent 'absent' in team 'desk', possible are helper, expert"):
        accept_item(world.engine, TASK, item)
    assert world.files.held == files


def test_the_sweeper_finds_a_message_whose_wake_up_was_lost() -> None:
    world = waiting_task()
    world.send("more")
    world.dispatcher.queue.clear()
    world.clock.move(CHECK_DELAY)
    world.sweep()
    world.drain()
    assert texts_of_user(world) == ["go", "more"]


def test_a_message_is_checked_at_once_if_its_wake_up_cannot_be_sent() -> None:
    world = waiting_task()
    world.watch = refusing("dispatcher.advance")
    world.send("more")
    assert world.server.held.schedule[TASK] <= world.clock.now()


def assert_stopped(world: World) -> TaskStep:
    """Assert that the task is cancelled, no agent acted after the stop, and every call has its result.

    Return the last step.
    """
    last = world.history()[-1]
    assert world.summary().status is TaskStatus.CANCELLED
    assert world.summary().reason == "stopped by the user"
    assert last.agent_name == "orchestrator"
    assert last.error is not None
    assert last.error.code == "stopped"
    calls = [call.id for step in world.history() for call in step.calls]
    results = [result.tool_call_id for step in world.history() for result in step.results]
    assert calls == results
    assert [record["type"] for record in world.published()].count("event_user_interrupt") == 1
    return last


def test_a_stop_during_a_stream_ends_the_turn_immediately() -> None:
    world = GRAPH.world()
    seen: list[str] = []

    def watch(name: str, call: Any) -> Any:
        answer = call()
        seen.append(name)
        if seen.count("leases.emit") == 1 and name == "leases.emit":
            world.stop()
            world.drain()
        return answer

    world.watch = watch
    world.submit(GRAPH.team)
    world.settle()
    assert_stopped(world)
    assert seen.count("leases.emit") == 1
    interrupted_step = world.history()[1]
    assert (interrupted_step.agent_name, interrupted_step.text, interrupted_step.interrupted) == (
        "writer",
        "draft",
        True,
    )
    assert interrupted_step.metadata["receipt"]["chunks_after"] == 0
    assert world.given.model.streams[0].closed
