"""Interruptions without a message: the work ends, and the task waits for its user."""

from collections.abc import Callable
from typing import Any, cast

import pytest

from roboco.client.receipt import Receipt, find_receipt
from roboco.client.session import session
from roboco.client.task import Task
from roboco.domain.history.state import fold
from roboco.domain.recorded.explain import current_status, explain
from roboco.domain.status import TaskStatus
from roboco.errors import UsageError
from roboco.lab.replay.replay import replay
from roboco.ports.tools import ToolContext
from roboco.settings import Settings
from tests.support.memory_ports.journeys import MANUAL, TOOLS, assert_whole
from tests.support.memory_ports.model import says
from tests.support.memory_ports.two_agents import world_of_two_agents
from tests.support.memory_ports.world import TASK, World, world_parts


def halted_once(act: Callable[[World], None] = World.halt, texts: tuple[str, ...] = ("half ", "a word")) -> World:
    return world_of_two_agents(act, texts)


def control(world: World, task_id: str = TASK) -> Task:
    return Task(task_id, world.engine, cast(Any, None), Settings())


def texts_of(world: World) -> list[tuple[str, str]]:
    return [(step.agent_name, step.text) for step in world.history()]


def receipt_of(world: World, item_id: str = "halt1") -> Receipt:
    return find_receipt(world.engine.workspace, TASK, item_id)


def assert_waits(world: World) -> None:
    task = world.server.held.tasks[TASK]
    assert (task.status, task.reason) == (TaskStatus.USER_TURN, "interrupted by the user")
    assert not world.dispatcher.queue
    assert not world.pending_item_ids()
    assert_whole(world, "")


def test_text_until_then_is_kept_and_the_task_waits_for_its_user() -> None:
    world = halted_once()
    world.settle()
    assert texts_of(world) == [("user", "go"), ("first", "half a word"), ("orchestrator", "interrupted by the user")]
    interrupted = world.history()[1]
    assert interrupted.interrupted
    assert world.given.model.streams[0].closed
    assert len(world.given.model.requests) == 1
    assert_waits(world)
    receipt = receipt_of(world)
    assert (receipt.applied_at_seq, receipt.effect, receipt.chunks_after) == (2, "reply_ended", 0)
    assert receipt.seen_at is not None
    assert receipt.closed_at is not None
    [event] = [record for record in world.events() if record["type"] == "event_user_interrupt"]
    assert (event["reason"], event["item_id"]) == ("interrupted by the user", "halt1")
    assert event["receipt"] == interrupted.metadata["receipt"]


def test_next_message_continues_with_the_interrupted_agent() -> None:
    world = halted_once()
    world.settle()
    world.send("shorter")
    world.settle()
    assert texts_of(world)[3:] == [
        ("user", "shorter"),
        ("first", "first is brief"),
        ("second", "second is brief"),
    ]
    assert [message["content"] for message in world.given.model.requests[1].messages[1:]] == [
        "go",
        "half a word\n(interrupted by the user)",
        "shorter",
    ]
    assert world.history()[4].metadata["routing"]["rule"] == "interrupted"
    assert world.summary().status is TaskStatus.COMPLETED
    assert_whole(world, "")


def test_history_session_and_story_show_it_and_the_replay_decides_the_same() -> None:
    world = halted_once()
    world.settle()
    assert fold(world.history()).interrupted
    shown = session(world.engine, TASK)
    assert (shown.status, shown.reason) == (TaskStatus.USER_TURN, "interrupted by the user")
    assert shown.messages[-1].text == "interrupted by the user"
    assert current_status(world.recorded()) == "it is the user's turn: interrupted by the user"
    assert {step.comparison for step in replay(world.recorded())} == {"same"}
    world.send("shorter")
    world.settle()
    assert not fold(world.history()).interrupted
    [scene] = explain(world.recorded(), "4")
    assert "the user interrupted the work" in scene.before
    assert {step.comparison for step in replay(world.recorded()) if step.seq is not None} == {"same"}


def test_open_calls_are_closed_and_the_tool_is_cancelled() -> None:
    worlds: list[World] = []
    flags: list[bool] = []

    def add(args: dict[str, Any], context: ToolContext) -> int:
        if args["a"] == 3:
            worlds[0].halt()
            worlds[0].drain()
            flags.append(context.cancelled)
        return int(args["a"])

    worlds.append(World(world_parts(TOOLS.script, {"add": add})))
    world = worlds[0]
    world.submit(TOOLS.team)
    world.settle()
    [_, lead, results, notice] = world.history()
    assert flags == [True]
    assert [result.is_error for result in results.results] == [False, True, True, True]
    assert notice.is_interruption
    assert receipt_of(world).effect == "calls_closed"
    assert_waits(world)
    world.given.model.script = lambda request: says("I stop")
    world.send("why?")
    world.settle()
    answered = [
        message["tool_call_id"] for message in world.given.model.requests[-1].messages if "tool_call_id" in message
    ]
    assert answered == [call.id for call in lead.calls]
    assert world.history()[-1].agent_name == lead.agent_name


@pytest.mark.parametrize("options", [{"agent": "helper"}, {"client_context": {"page": 1}}, {"artifacts": ["a.txt"]}])
def test_agent_and_attachments_need_a_message(options: dict[str, Any]) -> None:
    world = MANUAL.world()
    world.submit(MANUAL.team)
    with pytest.raises(UsageError, match="message: is missing"):
        control(world).interrupt(**options)
    control(world).interrupt()
    world.settle()
    assert world.server.held.tasks[TASK].reason == "interrupted by the user"
