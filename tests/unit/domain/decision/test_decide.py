"""Tables of `decide`: each branch, with the history and the inputs that lead to it."""

from typing import Any

import pytest

from roboco.domain.decision.action import (
    WORKER_LOST_RULE,
    Action,
    AppendStep,
    CallTools,
    End,
    Route,
    Situation,
    StartTurn,
    Wait,
)
from roboco.domain.decision.decide import decide
from roboco.domain.decision.tool_answers import local_answers
from roboco.domain.history.part import Artifact, ErrorPart, TextPart, ToolCall, ToolOutcome, ToolResult, failed_outcome
from roboco.domain.history.task_state import TaskState
from roboco.domain.inbox.item import Stop, UserMessage
from roboco.domain.status import TaskStatus
from roboco.domain.team.team import Team
from roboco.domain.team.validation import validate_team
from tests.unit.domain.steps import START, Line, call, failed, history_of, result, routed, steps_of, text

TEAM = validate_team(
    {
        "name": "desk",
        "agents": [
            {"name": "a", "prompt": "hi", "tools": ["add", "memory_search"], "handoffs": ["b", "c"]},
            {"name": "b", "prompt": "hi", "tools": ["add"]},
            {"name": "c", "prompt": "hi"},
        ],
        "tools": [{"name": "add", "function": "x:add", "effect": "pure"}, {"name": "pay", "function": "x:pay"}],
        "collaboration_model": {"type": "graph", "routing_graph": {"a": ["b"], "b": ["END"]}},
    }
)
GO: Line = ("user", "go")
STOP = Stop(item_id="s", created_at=START, reason="enough")
MORE = UserMessage(item_id="m", created_at=START, text="more")


def decide_after(*lines: Line, team: Team = TEAM, **situation: Any) -> Action:
    return decide(team, history_of(steps_of(*lines)), Situation(**situation))


def handoff(call_id: str, to: Any, reason: str = "yours") -> dict[str, Any]:
    return call(call_id, "handoff", {"destination_agent": to, "reason": reason})


def ok(call_id: str, value: Any = 1, artifacts: tuple[Artifact, ...] = ()) -> ToolOutcome:
    return ToolOutcome(result=ToolResult(tool_call_id=call_id, result=value), artifacts=artifacts)


# --- the next agent --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "agent", "rule"),
    [
        ([GO], "a", "initial"),
        ([GO, ("a", "x")], "b", "a[0] -> b"),
        ([GO, ("a", [call("1")]), ("tool_executor", [result("1")])], "a", "results"),
        ([GO, ("a", [call("1")]), ("tool_executor", [result("1", error="no")])], "a", "results"),
        ([GO, ("c", "x"), ("user", "more")], "c", "answers"),
        ([GO, ("c", "x"), ("user", "more", {"agent": "b"})], "b", "named"),
    ],
)
def test_an_agent_acts(lines: list[Line], agent: str, rule: str) -> None:
    action = decide_after(*lines)
    assert isinstance(action, StartTurn)
    assert (action.agent, action.route.to, action.route.rule, action.handed_off_by) == (agent, agent, rule, None)


def test_end_completes_the_task() -> None:
    assert decide_after(GO, ("b", "x")) == End(TaskStatus.COMPLETED, "after b always")


def test_a_route_to_the_user_waits() -> None:
    action = decide_after(GO, ("c", "x"))
    assert isinstance(action, Wait)
    assert (action.status, action.route.to, action.route.rule) == (TaskStatus.USER_TURN, "USER", "c: no edge")


@pytest.mark.parametrize(("rule", "code"), [("r", "router"), (WORKER_LOST_RULE, "router_lost")])
def test_a_router_that_names_an_unknown_agent_is_an_error(rule: str, code: str) -> None:
    def stray(team: Team, history: Any) -> Route:
        return Route("x", "mine", rule, "why")

    action = decide(TEAM, history_of(steps_of(GO)), Situation(), stray)
    assert isinstance(action, AppendStep)
    [part] = action.parts
    assert isinstance(part, ErrorPart)
    assert part.code == code
    assert "chose 'x', possible are a, b, c, END and USER" in part.message


# --- ended tasks --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("last", "status"),
    [
        (("orchestrator", [failed("stopped", "enough")]), TaskStatus.CANCELLED),
        (("orchestrator", [failed("limit", "enough")]), TaskStatus.FAILED),
        (("orchestrator", [failed("attempts", "enough")]), TaskStatus.FAILED),
        (("orchestrator", [failed("router", "enough")]), TaskStatus.FAILED),
        (("a", [failed("http_401", "enough")]), TaskStatus.FAILED),
        (("a", [text("half"), failed("connection", "enough")]), TaskStatus.FAILED),
    ],
)
@pytest.mark.parametrize("inbox", [(), (STOP,), (MORE,)])
def test_an_error_ends_the_task_for_any_inbox(last: Line, status: TaskStatus, inbox: tuple[Any, ...]) -> None:
    assert decide_after(GO, last, inbox=inbox) == End(status, "enough")


def test_an_error_of_a_tool_ends_nothing() -> None:
    steps: list[Line] = [GO, ("a", [call("1")]), ("tool_executor", [result("1", error="no"), failed("tool")])]
    assert isinstance(decide_after(*steps), StartTurn)


# --- stop ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lines", [[GO], [GO, ("a", "x")], [GO, ("c", "x")], [GO, ("b", "x")]])
@pytest.mark.parametrize("inbox", [(STOP,), (MORE, STOP), (STOP, Stop(item_id="t", created_at=START))])
def test_a_stop_becomes_the_last_step(lines: list[Line], inbox: tuple[Any, ...]) -> None:
    action = decide_after(*lines, inbox=inbox, give_up_reason="lost")
    assert isinstance(action, AppendStep)
    assert (action.agent_name, action.item_ids, action.metadata) == ("orchestrator", ("s",), {"item_id": "s"})
    assert [part.model_dump() for part in action.parts] == [{"type": "error", "code": "stopped", "message": "enough"}]


def test_a_stop_closes_open_calls_first() -> None:
    action = decide_after(
        GO, ("a", [call("1"), call("2"), call("3", "nothing")]), inbox=(STOP,), outcomes={"2": ok("2", 7)}
    )
    assert isinstance(action, AppendStep)
    assert (action.agent_name, action.item_ids) == ("tool_executor", ())
    results = [part.tool_result for part in action.parts if part.type == "tool_result"]
    assert [one.tool_call_id for one in results] == ["1", "2", "3"]
    assert [one.result for one in results] == [None, 7, None]
    assert results[0].error == "not finished: enough"
    assert [outcome.result.tool_call_id for outcome in action.unpublished_results] == ["1", "3"]


# --- tool calls ------------------------------------------------------------------------------------------------


def test_calls_are_dispatched() -> None:
    action = decide_after(GO, ("a", [text("x"), call("1"), call("2")]))
    assert isinstance(action, CallTools)
    assert [one.id for one in action.calls] == ["1", "2"]


def test_only_calls_without_an_outcome_are_dispatched() -> None:
    parts = [call("1"), call("2"), call("3", "nothing"), handoff("4", "b")]
    action = decide_after(GO, ("a", parts), outcomes={"1": ok("1")})
    assert isinstance(action, CallTools)
    assert [one.id for one in action.calls] == ["2"]


def test_results_become_a_step_in_the_order_of_the_calls() -> None:
    made = Artifact(artifact_id="f", uri="file://artifacts/f", mime_type="text/plain")
    outcomes = {"2": ok("2", "two"), "1": ok("1", "one", (made,))}
    action = decide_after(GO, ("a", [call("1"), call("2")]), outcomes=outcomes)
    assert isinstance(action, AppendStep)
    assert [part.type for part in action.parts] == ["tool_result", "artifact", "tool_result"]
    assert action.unpublished_results == ()


@pytest.mark.parametrize(
    ("agent", "part", "metadata", "message"),
    [
        ("a", call("1", "pay"), {}, "tool 'pay' is not on your list; you may call: add, memory_search, handoff"),
        ("a", call("1", "nothing"), {}, "tool 'nothing' is not on your list"),
        ("b", call("1", "memory_search"), {}, "you may call: add"),
        ("c", call("1", "add"), {}, "you may call: no tools"),
        ("b", handoff("1", "a"), {}, "tool 'handoff' is not on your list; you may call: add"),
        ("a", handoff("1", "a"), {}, "you cannot hand off to 'a'; possible destinations: b, c"),
        ("a", handoff("1", "x"), {}, "you cannot hand off to 'x'; possible destinations: b, c"),
        ("a", handoff("1", None), {}, "you cannot hand off to 'None'"),
        ("a", handoff("1", ["b"]), {}, "you cannot hand off to"),
        ("a", call("1", "handoff"), {}, "you cannot hand off to 'None'"),
        ("a", call("1"), {"invalid_calls": {"1": "the arguments are not JSON"}}, "are not JSON; call 'add' again"),
        ("a", handoff("1", "b"), {"invalid_calls": {"1": "the arguments are no"}}, "no; call 'handoff' again"),
        ("a", call("1", "x" * 500), {}, f"tool {'x' * 80!r} is not"),
    ],
)
def test_a_call_that_is_refused_is_an_error_result(agent: str, part: Any, metadata: Any, message: str) -> None:
    action = decide_after(GO, (agent, [part], metadata))
    assert isinstance(action, AppendStep)
    assert action.agent_name == "tool_executor"
    [outcome] = action.unpublished_results
    assert outcome.result.is_error
    assert message in str(outcome.result.error)


def test_a_refused_handoff_keeps_the_turn() -> None:
    refused = ("tool_executor", [result("1", error="you cannot")])
    action = decide_after(GO, ("a", [handoff("1", "x")]), refused)
    assert isinstance(action, StartTurn)
    assert (action.agent, action.handed_off_by) == ("a", None)


def test_a_handoff_is_answered_by_the_coordinator_and_overrides_the_router() -> None:
    parts = [handoff("1", "c", "check this")]
    action = decide_after(GO, ("a", parts))
    assert isinstance(action, AppendStep)
    assert action.unpublished_results[0].result.result == "the work is handed off to c"
    after = decide_after(GO, ("a", parts), (action.agent_name, [part.model_dump() for part in action.parts]))
    assert isinstance(after, StartTurn)
    assert (after.agent, after.handed_off_by) == ("c", "a")
    assert after.route == Route("c", "graph", "handoff", "check this", ("b", "c"))


def test_the_second_handoff_of_a_step_is_refused() -> None:
    step = steps_of(GO, ("a", [handoff("0", "x"), handoff("1", "b"), handoff("2", "c"), handoff("3", "b")]))[1]
    answers = local_answers(TEAM, TaskState(), step)
    assert [answers[str(n)].result.is_error for n in range(4)] == [True, False, True, True]
    assert "already handed off" in str(answers["2"].result.error)


def test_a_handoff_beside_other_calls_waits_for_their_results() -> None:
    parts = [call("1"), handoff("2", "c"), call("3", "nothing")]
    action = decide_after(GO, ("a", parts))
    assert action == CallTools((ToolCall(id="1", tool_name="add", args={}),))
    action = decide_after(GO, ("a", parts), outcomes={"1": ok("1")})
    assert isinstance(action, AppendStep)
    assert [outcome.result.tool_call_id for outcome in action.unpublished_results] == ["2", "3"]
    after = decide_after(GO, ("a", parts), (action.agent_name, [part.model_dump() for part in action.parts]))
    assert isinstance(after, StartTurn)
    assert after.agent == "c"


def test_the_reason_of_a_handoff_may_be_missing_or_long() -> None:
    for given, expected in (({}, "a handed off"), ({"reason": 5}, "5"), ({"reason": "x" * 900}, "x" * 500)):
        parts = [call("1", "handoff", {"destination_agent": "b"} | given)]
        action = decide_after(GO, ("a", parts), ("tool_executor", [result("1", "ok")]))
        assert isinstance(action, StartTurn)
        assert action.route.reason == expected


def test_a_stop_gives_an_open_irreversible_call_an_unknown_outcome() -> None:
    tools = tuple(tool.model_copy(update={"effect": "irreversible"}) for tool in TEAM.tools)
    team = TEAM.model_copy(update={"tools": tools})
    action = decide_after(GO, ("a", [call("1"), call("2")]), inbox=(STOP,), outcomes={"2": ok("2", 7)}, team=team)
    assert isinstance(action, AppendStep)
    first, second = (part.tool_result for part in action.parts if part.type == "tool_result")
    assert str(first.error).startswith("outcome unknown: the call was ended before its result was in (enough)")
    assert second.result == 7


# --- messages --------------------------------------------------------------------------------------------------


def test_a_message_becomes_a_step() -> None:
    action = decide_after(GO, ("c", "x"), inbox=(MORE,))
    assert isinstance(action, AppendStep)
    assert (action.agent_name, action.parts, action.item_ids) == ("user", (TextPart(text="more"),), ("m",))
    assert action.metadata["item_id"] == "m"
    assert "agent" not in action.metadata


def test_the_oldest_message_goes_first() -> None:
    other = UserMessage(item_id="n", created_at=START, text="other")
    action = decide_after(GO, inbox=(other, MORE))
    assert isinstance(action, AppendStep)
    assert action.item_ids == ("n",)


def test_a_message_may_name_the_agent_that_answers() -> None:
    action = decide_after(GO, inbox=(MORE.model_copy(update={"agent": "b"}),))
    assert isinstance(action, AppendStep)
    assert action.metadata["agent"] == "b"


def test_a_message_that_ends_a_wait_keeps_the_reason_of_the_wait() -> None:
    action = decide_after(GO, ("c", "x"), inbox=(MORE,))
    assert isinstance(action, AppendStep)
    assert action.metadata["routing"]["rule"] == "c: no edge"
    assert action.metadata["routing"]["to"] == "USER"


def test_a_message_waits_for_open_calls() -> None:
    assert isinstance(decide_after(GO, ("a", [call("1")]), inbox=(MORE,)), CallTools)


@pytest.mark.parametrize(
    "model",
    [{"type": "sequential"}, {"type": "manual"}, {"type": "graph", "routing_graph": {"a": ["b"]}}],
    ids=["sequential", "manual", "graph"],
)
def test_a_message_between_results_and_turn_keeps_the_turn(model: dict[str, Any]) -> None:
    team = TEAM.model_copy(update={"collaboration_model": validate_team(_data(model)).collaboration_model})
    results: list[Line] = [GO, ("a", [call("1")]), ("tool_executor", [result("1")])]
    assert next_agent(team, results) == "a"
    handed: list[Line] = [GO, ("a", [handoff("1", "c")]), ("tool_executor", [result("1", "ok")])]
    assert next_agent(team, handed) == "c"


def test_a_handoff_in_a_manual_team_waits_for_the_user() -> None:
    team = TEAM.model_copy(update={"collaboration_model": validate_team(_data({"type": "manual"})).collaboration_model})
    handed: list[Line] = [GO, ("a", [handoff("1", "c")]), ("tool_executor", [result("1", "ok")])]
    action = decide_after(*handed, team=team)
    assert isinstance(action, Wait)
    assert (action.status, action.route.rule) == (TaskStatus.USER_TURN, "handoff")
    action = decide_after(*handed, ("user", "more"), team=team)
    assert isinstance(action, StartTurn)
    assert (action.agent, action.handed_off_by) == ("c", "a")
    action = decide_after(*handed, ("user", "more", {"agent": "b"}), team=team)
    assert isinstance(action, StartTurn)
    assert (action.agent, action.handed_off_by) == ("b", None)
    assert isinstance(decide_after(*handed, team=team, sub_task=True), End)


def next_agent(team: Team, lines: list[Line]) -> str:
    """Return the agent that acts after the message is applied, in this decision or the next."""
    action = decide_after(*lines, team=team, inbox=(MORE,))
    if isinstance(action, AppendStep):
        applied: Line = (action.agent_name, [part.model_dump() for part in action.parts], action.metadata)
        action = decide_after(*lines, applied, team=team)
    assert isinstance(action, StartTurn)
    return action.agent


def _data(model: dict[str, Any]) -> dict[str, Any]:
    agents = [{"name": name, "prompt": "hi"} for name in "abc"]
    return {"name": "desk", "agents": agents, "collaboration_model": model}


# --- limits and attempts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "seconds", "message"),
    [
        ({"max_steps": 2}, 0.0, "the task has 2 steps, max_steps is 2"),
        ({"max_steps": 3}, 0.0, None),
        ({"max_tokens": 30}, 0.0, "the task has used 30 tokens, max_tokens is 30"),
        ({"max_tokens": 31}, 0.0, None),
        ({"max_seconds": 1.5}, 1.5, "the task has run for 2 s, max_seconds is 1.5"),
        ({"max_seconds": 10}, 9.9, None),
    ],
)
def test_limits_end_the_task_before_the_next_turn(limits: dict[str, Any], seconds: float, message: str | None) -> None:
    team = validate_team(_data({"type": "sequential"}) | {"limits": limits})
    spent: Line = ("a", "x", {"usage": {"tokens_in": 10, "tokens_out": 20}})
    action = decide_after(GO, spent, team=team, seconds=seconds)
    if message is None:
        assert isinstance(action, StartTurn)
    else:
        assert isinstance(action, AppendStep)
        assert action.parts[0].model_dump() == {"type": "error", "code": "limit", "message": message}


def test_limits_do_not_affect_ends_and_waits() -> None:
    team = TEAM.model_copy(update={"limits": TEAM.limits.model_copy(update={"max_steps": 1})})
    assert isinstance(decide_after(GO, ("b", "x"), team=team), End)
    assert isinstance(decide_after(GO, ("c", "x"), team=team), Wait)


def test_exhausted_attempts_end_the_task() -> None:
    action = decide_after(GO, give_up_reason="lost 5 times", inbox=(MORE,))
    assert isinstance(action, AppendStep)
    assert action.agent_name == "orchestrator"
    assert action.parts[0].model_dump() == {"type": "error", "code": "attempts", "message": "lost 5 times"}


def test_a_failed_outcome_holds_its_error() -> None:
    outcome = failed_outcome("1", "no net", 12)
    assert (outcome.result.is_error, outcome.result.error, outcome.result.runtime_ms) == (True, "no net", 12)


def test_equal_histories_have_equal_decisions() -> None:
    lines: list[Line] = [GO, ("a", "x", routed("a")), ("b", [call("1")])]
    assert decide_after(*lines) == decide_after(*lines)
