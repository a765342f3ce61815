"""Calls with external answers: client tools and approvals."""

from collections.abc import Callable
from typing import Any

import pytest

from roboco.domain.history.part import ToolCall, ToolOutcome, ToolResult, successful_outcome
from roboco.domain.status import TaskStatus
from roboco.errors import UsageError
from roboco.ports.assignment import ToolAssignment
from roboco.ports.model import Request
from roboco.ports.snapshot import Phase
from roboco.ports.tools import ToolContext
from tests.support.memory_ports.dispatcher import ToolMessage
from tests.support.memory_ports.journeys import assert_whole, member, own_turns
from tests.support.memory_ports.model import ScriptedReply, says
from tests.support.memory_ports.world import TASK, World, team_of, world_parts

ASK = {"name": "client_ask", "description": "asks", "input_schema": {"type": "object", "required": ["q"]}}
TEAM = team_of(
    agents=[member("lead", tools=["add", "pay", "wire"])],
    tools=[
        {"name": "add", "function": "shop.sums:add", "effect": "pure"},
        {"name": "pay", "function": "shop.sums:pay", "effect": "irreversible", "approval": "required"},
        {
            "name": "wire",
            "function": "shop.sums:wire",
            "effect": "pure",
            "approval": {"argument": "amount", "above": 100},
        },
    ],
)
FUNCTIONS: dict[str, Callable[[dict[str, Any], ToolContext], object]] = {
    "add": lambda args, context: args["a"] + args["b"],
    "pay": lambda args, context: f"paid {args['amount']}",
    "wire": lambda args, context: f"wired {args['amount']}",
}


def world_with_calls(*calls: tuple[str, Any]) -> World:
    """Return a world whose agent makes these calls and then answers."""

    def script(request: Request) -> ScriptedReply:
        return says("calling", *calls) if own_turns(request) == 0 else says("done")

    world = World(world_parts(script, FUNCTIONS))
    world.submit(TEAM, client_tools=[ASK])
    world.settle()
    return world


def calls_of(world: World) -> list[ToolCall]:
    return list(world.history()[1].calls)


def results_of(world: World) -> list[ToolResult]:
    return list(world.history()[2].results)


def last_tool_texts(world: World) -> list[Any]:
    return [message["content"] for message in world.given.model.requests[-1].messages if message["role"] == "tool"]


def test_invalid_arguments_never_reach_the_client() -> None:
    world = world_with_calls(("client_ask", {"wrong": 1}), ("client_ask", {"q": 1}))
    assert world.status() is TaskStatus.CLIENT_TOOL_TURN
    _, right = calls_of(world)
    with pytest.raises(UsageError, match="is not an open call"):
        world.answer(successful_outcome(ToolCall(id="tc_unknown", tool_name="client_ask", args={}), 1))
    world.answer(successful_outcome(right, 2))
    world.settle()
    assert [result.is_error for result in results_of(world)] == [True, False]
    assert '"q" is a required property' in str(results_of(world)[0].error)


def test_the_client_cannot_answer_a_tool_of_the_workers() -> None:
    world = world_with_calls(("pay", {"amount": 5}))
    with pytest.raises(UsageError, match="is not a client tool"):
        world.answer(successful_outcome(calls_of(world)[0], "paid, they say"))


def test_a_large_result_of_a_client_is_offloaded() -> None:
    world = world_with_calls(("client_ask", {"q": 1}))
    kept: list[str] = []

    def keep(outcome: ToolOutcome, context: ToolContext) -> ToolOutcome:
        kept.append(context.call_id)
        return outcome

    world.given.toolbox.offload_large = keep  # type: ignore[method-assign]
    world.answer(successful_outcome(calls_of(world)[0], "x"))
    assert kept == [calls_of(world)[0].id]


def test_a_call_runs_with_the_arguments_that_were_approved() -> None:
    world = world_with_calls(("pay", {"amount": 5000}))
    world.decide_approval(calls_of(world)[0].id, True, args={"amount": 50})
    world.settle()
    assert [result.result for result in results_of(world)] == ["paid 50"]
    assert last_tool_texts(world) == ['(a person changed the arguments to {"amount":50}) paid 50']
    assert calls_of(world)[0].args == {"amount": 5000}, "the history contains the arguments of the agent"


def test_a_condition_on_the_arguments_selects_the_calls_that_need_approval() -> None:
    world = world_with_calls(
        ("wire", {"amount": 100}), ("wire", {"amount": 101}), ("wire", {"amount": "101"}), ("wire", {})
    )
    assert world.status() is TaskStatus.APPROVAL
    assert len(world.given.toolbox.runs) == 1, "calls with arguments that cannot be compared need approval"
    for call in calls_of(world)[1:]:
        world.decide_approval(call.id, False)
    world.settle()
    assert [result.is_error for result in results_of(world)] == [False, True, True, True]
    with pytest.raises(UsageError):
        world.decide_approval(calls_of(world)[0].id, True)


def test_a_tools_worker_does_not_run_an_unapproved_call() -> None:
    world = world_with_calls(("pay", {"amount": 5}))
    [call] = calls_of(world)
    held = world.server.held.tasks[TASK]
    held.phase = Phase.TOOLS
    world.deliver(ToolMessage(ToolAssignment(TASK, 1, held.epoch, call.id, 1), "pay", 60.0))
    assert not world.given.toolbox.runs


def check_amount(args: dict[str, Any], context: ToolContext) -> None:
    if not isinstance(args.get("amount"), int):
        raise ValueError("wrong arguments: amount: must be an integer")


def test_no_person_is_asked_to_approve_wrong_arguments() -> None:
    def script(request: Request) -> ScriptedReply:
        calls = (("pay", {"sum": 1}), ("wire", {"amount": "a lot"}), ("wire", {"amount": 1}))
        return says("paying", *calls) if own_turns(request) == 0 else says("done")

    checks = {"check_pay": check_amount, "check_wire": check_amount}
    world = World(world_parts(script, {**FUNCTIONS, **checks}))
    world.submit(TEAM)
    world.settle()
    assert world.summary().status is TaskStatus.COMPLETED
    assert [result.error for result in results_of(world)] == [
        "wrong arguments: amount: must be an integer; call 'pay' again",
        "wrong arguments: amount: must be an integer; call 'wire' again",
        None,
    ]
    assert len(world.given.toolbox.runs) == 1
    assert_whole(world, "")


def test_the_arguments_of_a_tool_that_the_agent_may_not_call_are_not_checked() -> None:
    asked: list[object] = []
    team = team_of(agents=[member("lead")], tools=TEAM.model_dump(by_alias=True, mode="json")["tools"])
    script = lambda request: says("", ("pay", {})) if own_turns(request) == 0 else says("done")  # noqa: E731
    world = World(world_parts(script, {"check_pay": lambda args, context: asked.append(args)}))
    world.submit(team)
    world.settle()
    assert "not on your list" in str(results_of(world)[0].error)
    assert not asked


def test_an_undeclared_client_tool_is_refused() -> None:
    world = world_with_calls(("client_other", {}))
    assert "not on your list" in str(results_of(world)[0].error)
