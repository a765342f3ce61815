"""function_turn: the turn of an agent that is a function, as a tool call for the agent and its answer.

    decide ─► step of the agent: the call ─► tools worker ─► step of results, with the answer ─► step of the agent: it
              (named as the agent)           (as any call)    (metadata, one commit)             (pure, before all else)

So claims, leases, attempts, effects, approvals, time limits and interruptions of the turn are those of tool calls. The
answer is in the step of results first, because Redis may be lost before its own step is stored. Without an answer in
that step the call was ended from outside, and the agent has its turn again.
"""

from typing import Any

from roboco.domain.canonical_json import canonical_json
from roboco.domain.decision.action import AppendStep
from roboco.domain.decision.budget import refused_calls
from roboco.domain.decision.route import Route
from roboco.domain.history.part import ErrorPart, Part, TextPart, ToolCall, ToolCallPart
from roboco.domain.history.state import AFTER_RESULTS, History
from roboco.domain.history.step import ANSWER, FUNCTION, GUARDS, HANDED_OFF_BY, OUTPUT, PROVIDER, TaskStep
from roboco.domain.history.tool_outcome import ToolOutcome
from roboco.domain.ids import call_id_at
from roboco.domain.limits import Limits
from roboco.domain.team.team import Agent, Team
from roboco.domain.usage import Usage

FAILED = "function"
"""The error code of a step whose function has failed."""


def begin_turn(agent: Agent, history: History, route: Route, handed_off_by: str | None) -> AppendStep:
    """Return the step with the call that is the agent's turn."""
    about: dict[str, Any] = {"routing": route.record(), FUNCTION: "call"}
    if handed_off_by is not None:
        about[HANDED_OFF_BY] = handed_off_by
    return AppendStep(agent.name, (_call(history, 0, agent.name, {}),), about)


def refused_turn(agent: Agent, limits: Limits, history: History) -> str | None:
    """Return the limit that forbids the function's turn, or None. `max_calls` of the agent counts its turns, too."""
    call = _call(history, 0, agent.name, {}).tool_call
    turn = agent.turn_call
    needed = {call.id: Usage(calls=1) if turn is None else Usage(calls=1, seconds=turn.timeout, cost=turn.price)}
    used = history.state.agent_usage(agent.name)
    counted = {agent.name: used.model_copy(update={"calls": used.calls + used.steps})}
    state = history.state.model_copy(update={"agents": history.state.agents | counted})
    return refused_calls(limits, state, agent.name, (call,), needed).get(call.id)


def recorded_answer(team: Team, step: TaskStep, outcome: ToolOutcome) -> dict[str, Any]:
    """Return the answer that a step of results records of the function's outcome.

    A person, or the function's `verify`, may have given a result: an object or list is the value of a typed answer.
    """
    if outcome.result.is_error:
        return {"error": outcome.result.error}
    if outcome.answer:
        return outcome.answer
    result = outcome.result.result
    if isinstance(result, dict | list):
        typed = team.agent(step.agent_name).output is not None
        return {"text": canonical_json(result)} | ({OUTPUT: result} if typed else {})
    return {"text": str(result)}


def answer_step(team: Team, history: History) -> AppendStep | None:
    """Return the step with the answer that the last step records, or None if it records none of this team."""
    answer: dict[str, Any] | None = history.last.metadata.get(ANSWER)
    if answer is not None and GUARDS in history.last.metadata:
        return AppendStep(answer["agent"], (TextPart(text=answer["text"]),), answer["metadata"])
    name = history.state.last_agent
    if answer is None or name is None or not team.has_agent(name):
        return None
    reason = "its function returned" if "error" not in answer else "its function failed"
    route = Route(name, team.collaboration_model.type, AFTER_RESULTS, reason)
    about = {"routing": route.record(), FUNCTION: "answer"} | {
        key: answer[key] for key in (OUTPUT, PROVIDER) if key in answer
    }
    if "error" in answer:
        return AppendStep(name, (ErrorPart(code=FAILED, message=f"{name}: {answer['error']}"),), about)
    calls = answer.get("calls") or ()
    text = str(answer.get("text") or "")
    parts: tuple[Part, ...] = (TextPart(text=text),) if text or not calls else ()
    made = (_call(history, index, str(one["name"]), one["args"]) for index, one in enumerate(calls))
    return AppendStep(name, (*parts, *made), about)


def _call(history: History, index: int, name: str, args: dict[str, Any]) -> ToolCallPart:
    """Return a call of the next step.

    Its id derives from its arguments, and from the id and content of the step before, which it answers.
    """
    last = history.last
    about = [args, last.text, [[one.result, one.error] for one in last.results]]
    call_id = call_id_at(last.step_id, history.state.steps, index, name, about)
    return ToolCallPart(tool_call=ToolCall(id=call_id, tool_name=name, args=args))
