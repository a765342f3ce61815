"""turn: a model call becomes one step, or is repeated, or fails; it is never stored twice."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from roboco.domain.history.part import TextPart
from roboco.domain.history.step import TaskStep
from roboco.domain.status import TaskStatus
from roboco.engine.coordinate.advance import advance
from roboco.engine.run.reply import parse_arguments
from roboco.ports.model import Request, RequestedCall
from tests.support.memory_ports.dispatcher import TurnMessage
from tests.support.memory_ports.journeys import member, own_turns
from tests.support.memory_ports.model import ScriptedReply, says
from tests.support.memory_ports.reader import ItemReader, items_of, read_items
from tests.support.memory_ports.world import TASK, World, team_of, world_parts

ONE_AGENT = team_of(agents=[member("one", tools=["add"])], tools=[{"name": "add", "function": "shop.sums:add"}])


def world_of(script: Callable[[Request], ScriptedReply]) -> World:
    """Return a world with one agent and a tool."""
    return World(world_parts(script, {"add": lambda args, context: 3}))


def take_turn(world: World) -> TurnMessage:
    """Take the message of the turn from the queue and return it."""
    [message] = [message for message in world.dispatcher.queue if isinstance(message, TurnMessage)]
    world.dispatcher.queue.remove(message)
    return message


def read_all(world: World) -> ItemReader:
    """Return a reader that followed the task from the beginning."""
    return read_items(items_of(world.published(), partial(world.histories.read, TASK)))


def test_a_malformed_tool_call_fails_the_task_and_is_charged() -> None:
    world = world_of(lambda request: ScriptedReply(("I would add.",), mistake="it holds no JSON object 'calls'"))
    world.submit(ONE_AGENT)
    world.settle()
    step = world.history()[1]
    assert (step.text, step.metadata["usage"]) == ("I would add.", {"tokens_in": 10, "tokens_out": 5})
    assert step.error is not None
    assert step.error.code == "malformed_tool_call"
    assert "it holds no JSON object 'calls'; use a larger model" in step.error.message
    assert world.summary().status is TaskStatus.FAILED


def test_a_call_without_arguments_in_an_answer_that_was_cut_off_is_not_run() -> None:
    requested = RequestedCall("add", "")
    with pytest.raises(ValueError, match="the answer was cut off before the arguments"):
        parse_arguments(requested, truncated=True)
    assert parse_arguments(requested, truncated=False) == {}


@pytest.mark.parametrize(("context", "searches"), [({"steps": 4}, True), ({"steps": 4, "see": ["one"]}, False)])
def test_an_agent_whose_window_leaves_out_steps_may_search_them(context: dict[str, Any], searches: bool) -> None:
    offered: list[list[str]] = []

    def script(request: Request) -> ScriptedReply:
        offered.append([tool["function"]["name"] for tool in request.tools])
        wanted = "memory_search" if len(offered) == 1 or "memory_search" in offered[-1] else "add"
        return says("", (wanted, "{}")) if len(offered) < 6 else says("done")

    world = World(world_parts(script, {"add": lambda args, context: 3, "memory_search": lambda args, context: []}))
    add = {"name": "add", "function": "shop.sums:add"}
    world.submit(team_of(agents=[member("one", tools=["add"], context=context)], tools=[add]))
    world.settle()
    assert offered[0] == ["add"]
    assert offered[-1] == (["add", "memory_search", "artifact_read"] if searches else ["add"])
    results = [result.error for step in world.history() for result in step.results]
    assert "'memory_search' is not on your list" in str(results[0])
    assert results[1:] == [None] * 4
    found = world.history()[-1].metadata["context"]
    assert found.get("offered") == (["memory_search", "artifact_read"] if searches else None)


@pytest.mark.parametrize(
    "arguments",
    [
        "{no json",
        "",
        "[1]",
        "null",
        '{"a": NaN}',
        '{"a": 1e999}',
        "[" * 50_000,
    ],
)
def test_arguments_that_are_no_json_object_are_an_error_result(arguments: str) -> None:
    world = world_of(
        lambda request: says(
            "again" if own_turns(request) else "", *([] if own_turns(request) else [("add", arguments)])
        )
    )
    world.submit(ONE_AGENT)
    world.settle()
    assert not world.failures
    assert [step.agent_name for step in world.history()] == ["user", "one", "tool_executor", "one"]
    [result] = world.history()[2].results
    if arguments not in ("", "null"):
        assert result.is_error
        assert "call 'add' again" in str(result.error)
        assert not world.given.toolbox.runs
    else:
        assert result.result == 3


def test_a_missing_tool_fails_the_task() -> None:
    world = World(world_parts(lambda request: says("never")))
    world.submit(ONE_AGENT)
    world.settle()
    assert world.summary().status is TaskStatus.FAILED
    assert "no tool 'add'" in world.summary().reason


def test_a_step_that_another_worker_has_written_first_counts() -> None:
    world = world_of(lambda request: says("mine"))
    world.submit(ONE_AGENT)
    others: list[TaskStep] = []

    def watch(name: str, call: Any) -> Any:
        if name == "histories.append" and call.args[1].seq == 1 and not others:
            task_id, step = call.args
            others.append(step.model_copy(update={"parts": (TextPart(text="theirs"),)}).sealed(step.prev_digest))
            world.histories.append(task_id, others[0])
        return call()

    world.watch = watch
    world.settle()
    task = world.engine.tasks.task_store.load(TASK, 10)
    assert task is not None
    assert list(task.steps.tail) == world.history()
    assert world.history()[1] == others[0]


def test_a_late_worker_stops_at_its_next_token() -> None:
    world = world_of(lambda request: says("one two three"))
    world.submit(ONE_AGENT)
    advance(world.engine, TASK)
    message = take_turn(world)
    emits: list[str] = []

    def watch(name: str, call: Any) -> Any:
        answer = call()
        if name == "leases.emit":
            emits.append(name)
            if len(emits) == 1:
                world.clock.move(world.given.policy.lease + 1)
                world.sweep()
        return answer

    world.watch = watch
    world.deliver(message)
    assert len(emits) == 2
    assert world.given.model.streams[0].closed
    assert len(world.history()) == 1
    world.settle()
    assert world.history()[1].metadata["attempt"] == 2
    assert read_all(world).steps == world.history()


def test_the_heartbeat_keeps_a_silent_turn() -> None:
    worlds: list[World] = []

    def think_slowly() -> None:
        for _ in range(10):
            worlds[0].clock.move(worlds[0].given.policy.lease - 5)
            worlds[0].heartbeat.beat()
            worlds[0].sweep()
        assert not worlds[0].dispatcher.queue

    worlds.append(world_of(lambda request: ScriptedReply(("at last",), meanwhile=think_slowly)))
    worlds[0].submit(ONE_AGENT)
    worlds[0].settle()
    assert worlds[0].history()[1].metadata["attempt"] == 1
    assert len(worlds[0].given.model.requests) == 1


def test_the_request_holds_profile_messages_and_tools() -> None:
    team = team_of(
        models={"small": {"model": "m1", "temperature": 0.5}, "big": {"model": "m2", "default": True}},
        agents=[member("one", model="small", tools=["add"]), member("two")],
        tools=[{"name": "add", "function": "shop.sums:add"}],
    )
    world = world_of(lambda request: says("text"))
    world.submit(team)
    world.settle()
    first, second = world.given.model.requests
    assert (first.profile.model, second.profile.model) == ("m1", "m2")
    assert [tool["function"]["name"] for tool in first.tools] == ["add"]
    assert second.tools == ()
    assert list(first.messages) == [
        {"role": "system", "content": "You are one."},
        {"role": "user", "content": "go"},
    ]
    assert list(second.messages)[2:] == [{"role": "user", "content": "[one] text"}]
