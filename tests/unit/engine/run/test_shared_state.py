"""The state of a task: tools, clients and typed answers change it; prompts, conditions and tools see it."""

from typing import Any

import pytest

from roboco.client.task_result import result_of
from roboco.domain.history.state import fold
from roboco.domain.history.step import MAX_STATE_BYTES, changed_state
from roboco.domain.status import TaskStatus
from roboco.ports.model import Request
from roboco.ports.tools import ToolContext
from tests.support.memory_ports.journeys import member
from tests.support.memory_ports.model import ScriptedReply, says
from tests.support.memory_ports.toolbox import Function
from tests.support.memory_ports.world import World, team_of, world_parts


def run(script: Any, team: Any, functions: dict[str, Function] | None = None, **options: Any) -> World:
    world = World(world_parts(script, functions))
    world.submit(team, **options)
    world.settle()
    return world


def book(args: dict[str, Any], context: ToolContext) -> str:
    assert context.state == {"seat": "12A"}
    context.update_state(flight=args["flight"])
    return f"booked for {context.context['name']}"


def test_a_tool_changes_the_state_that_prompts_and_edges_see() -> None:
    def script(request: Request) -> ScriptedReply:
        system = str(request.messages[0]["content"])
        if system.startswith("Confirm"):
            return says(system)
        if any(message["role"] == "tool" for message in request.messages):
            return says("done")
        return says("", ("book", {"flight": "LH1"}))

    team = team_of(
        agents=[
            member("agent", tools=["book"]),
            {"name": "clerk", "prompt": "Confirm {{ state.flight }}, seat {{ state.seat }}"},
        ],
        tools=[{"name": "book", "function": "shop.flights:book", "effect": "irreversible"}],
        collaboration_model={
            "type": "graph",
            "routing_graph": {"agent": [{"to": "clerk", "when": {"state": {"flight": "LH1"}}}], "clerk": ["END"]},
        },
    )
    world = run(script, team, {"book": book}, state={"seat": "12A"}, context={"name": "Kim"})
    assert world.summary().status is TaskStatus.COMPLETED
    assert world.history()[-1].text == "Confirm LH1, seat 12A"
    assert result_of(world.summary(), world.history()).state == {"seat": "12A", "flight": "LH1"}
    assert fold(world.history()).values == {"seat": "12A", "flight": "LH1"}


def test_a_message_changes_the_state_and_null_removes_a_value() -> None:
    team = team_of(agents=[member("helper")], collaboration_model={"type": "manual"})
    world = run(lambda request: says("yes"), team, state={"a": 1, "b": 2})
    world.send("more", "item1", attachments={"state": {"a": None, "c": 3}})
    world.settle()
    assert fold(world.history()).values == {"b": 2, "c": 3}


def test_the_state_is_bounded() -> None:
    context = ToolContext("t", "a", "c", "k", 1, state={"a": "x" * MAX_STATE_BYTES})
    with pytest.raises(ValueError, match="state: has"):
        context.update_state(b="y")
    assert context.state_changes == {}
    assert changed_state({"a": 1}, {"b": "x" * MAX_STATE_BYTES}) == {"a": 1}


def test_an_agent_sees_the_steps_of_the_agents_that_it_names() -> None:
    def script(request: Request) -> ScriptedReply:
        name = str(request.messages[0]["content"]).removeprefix("You are ").rstrip(".")
        if name == "one" and not any(message["role"] == "tool" for message in request.messages):
            return says("I add", ("add", {}))
        return says(f"{name} is done")

    team = team_of(
        agents=[
            member("one", tools=["add"]),
            member("two"),
            member("three", context={"see": ["two"]}),
            member("four", context={"results": False}),
        ],
        tools=[{"name": "add", "function": "shop.sums:add", "effect": "pure"}],
    )
    world = run(script, team, {"add": lambda args, context: 42})
    seen = {
        str(request.messages[0]["content"])[8:-1]: " ".join(str(message["content"]) for message in request.messages)
        for request in world.given.model.requests
    }
    assert "one is done" not in seen["three"]
    assert "two is done" in seen["three"]
    assert "42" in seen["two"]
    assert "42" not in seen["four"]
    assert "one is done" in seen["four"]
    left_out = next(step for step in world.history() if step.agent_name == "three").metadata["context"]["left_out"]
    assert {"steps": [1, 3], "why": "the agent does not see it"} in left_out
