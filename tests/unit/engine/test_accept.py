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
from roboco.ports.tools import ToolContext
from tests.support.memory_ports.dispatcher import AdvanceMessage
from tests.support.memory_ports.journeys import GRAPH, MANUAL, SEQUENTIAL, TOOLS, member, own_turns, speaker
from tests.support.memory_ports.model import ScriptedReply, says
from tests.support.memory_ports.watch import Crash, make_call, refusing
from tests.support.memory_ports.world import TASK, World, team_of, world_parts


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


def test_a_message_may_name_the_agent() -> None:
    world = waiting_task()
    world.send("more", agent="expert")
    world.settle()
    assert agents_of_steps(world) == ["user", "helper", "user", "expert"]


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


def test_many_messages_become_steps_in_their_order() -> None:
    world = waiting_task()
    texts = [f"message {n}" for n in range(130)]
    for n, text in enumerate(texts):
        world.send(text, f"item{n}")
    world.settle()
    assert texts_of_user(world)[1:] == texts
    assert agents_of_steps(world)[-1] == "helper"


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


@pytest.mark.parametrize("invalid_id", ["", "a/b", "a.b", "x" * 65])
def test_an_item_id_with_a_path_is_refused(invalid_id: str) -> None:
    world = waiting_task()
    with pytest.raises(UsageError, match="item id"):
        accept_item(world.engine, TASK, UserMessage(item_id=invalid_id, created_at=world.engine.now(), text="x"))


def test_the_sweeper_finds_a_message_whose_wake_up_was_lost() -> None:
    world = waiting_task()
    world.send("more")
    world.dispatcher.queue.clear()
    world.clock.move(CHECK_DELAY)
    world.sweep()
    world.drain()
    assert texts_of_user(world) == ["go", "more"]


def test_the_sweeper_leaves_a_message_to_its_wake_up_for_a_moment() -> None:
    world = waiting_task()
    world.send("more")
    world.sweep()
    assert texts_of_user(world) == ["go"]
    assert world.server.held.schedule[TASK] <= world.clock.now() + CHECK_DELAY


def test_a_message_is_checked_at_once_if_its_wake_up_cannot_be_sent() -> None:
    world = waiting_task()
    world.watch = refusing("dispatcher.advance")
    world.send("more")
    assert world.server.held.schedule[TASK] <= world.clock.now()


def test_a_stop_is_checked_at_once() -> None:
    world = waiting_task()
    world.stop()
    world.dispatcher.queue.clear()
    world.sweep()
    assert world.status() is TaskStatus.CANCELLED


def test_a_message_during_the_decision_to_wait_is_not_delayed() -> None:
    """The coordinator has read an empty inbox; the message arrives before it schedules the next pass."""
    world = MANUAL.world()

    def watch(name: str, call: Any) -> Any:
        if name == "schedule.set" and world.status() is TaskStatus.USER_TURN:
            world.watch = make_call
            world.send("more")
            world.dispatcher.queue.remove(AdvanceMessage(TASK))
        return call()

    world.submit(MANUAL.team)
    world.watch = watch
    world.drain()
    assert world.watch is make_call
    for _ in range(5):
        world.clock.move(20)
        world.sweep()
        world.drain()
    assert texts_of_user(world) == ["go", "more"]


def test_only_edges_that_were_taken_are_counted() -> None:
    """The user writes during the critic's turn: the critic answers, and only then the writer continues, once."""
    team = team_of(
        agents=[member("writer"), member("critic")],
        collaboration_model={
            "type": "graph",
            "routing_graph": {"writer": ["critic"], "critic": [{"to": "writer", "max_times": 1}]},
        },
    )
    worlds: list[World] = []

    def script(request: Request) -> ScriptedReply:
        if speaker(request) == "critic" and own_turns(request) == 0:
            return ScriptedReply(("hm",), meanwhile=lambda: worlds[0].send("be kind"))
        return says("text")

    worlds.append(World(world_parts(script)))
    worlds[0].submit(team)
    worlds[0].settle()
    assert agents_of_steps(worlds[0]) == ["user", "writer", "critic", "user", "critic", "writer", "critic"]
    assert worlds[0].status() is TaskStatus.USER_TURN


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


def test_a_stop_before_the_first_turn_ends_the_task() -> None:
    world = GRAPH.world()
    world.submit(GRAPH.team)
    world.stop()
    world.settle()
    assert_stopped(world)
    assert not world.given.model.requests


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


def test_the_heartbeat_notices_a_stop_while_the_model_is_silent() -> None:
    worlds: list[World] = []
    closed: list[bool] = []

    def stay_silent() -> None:
        worlds[0].heartbeat.beat()
        closed.append(worlds[0].given.model.streams[0].closed)
        worlds[0].stop()
        worlds[0].drain()
        worlds[0].heartbeat.beat()
        closed.append(worlds[0].given.model.streams[0].closed)

    worlds.append(World(world_parts(lambda request: ScriptedReply(meanwhile=stay_silent))))
    worlds[0].submit(GRAPH.team)
    worlds[0].settle()
    assert_stopped(worlds[0])
    assert closed == [False, True]


def test_a_stop_closes_open_tool_calls() -> None:
    worlds: list[World] = []

    def add(args: dict[str, Any], context: ToolContext) -> int:
        if args["a"] == 3:
            worlds[0].stop()
            worlds[0].drain()
        return int(args["a"])

    worlds.append(World(world_parts(TOOLS.script, {"add": add})))
    worlds[0].submit(TOOLS.team)
    worlds[0].settle()
    assert_stopped(worlds[0])
    [_, lead, tools, _] = worlds[0].history()
    assert lead.calls
    assert [result.result for result in tools.results][:2] == [1, None]
    assert "not finished: stopped by the user" in str(tools.results[1].error)


def test_a_repeated_stop_ends_the_task_once() -> None:
    world = waiting_task()
    world.stop("one")
    world.stop("one")
    world.stop("two")
    world.settle()
    world.stop("two")
    world.settle()
    assert_stopped(world)
    assert agents_of_steps(world).count("orchestrator") == 1


def test_a_stop_after_the_end_changes_nothing() -> None:
    world = SEQUENTIAL.world()
    world.submit(SEQUENTIAL.team)
    world.settle()
    before = world.history()
    world.stop()
    world.settle()
    world.server.wipe()
    world.sweep()
    world.drain()
    assert world.history() == before
    assert world.summary().status is TaskStatus.COMPLETED


def test_a_stop_is_applied_before_messages() -> None:
    world = waiting_task()
    world.send("more")
    world.stop()
    world.settle()
    assert_stopped(world)
    assert texts_of_user(world) == ["go"]
