"""decide: what happens next, as a pure function of what has happened.

Everything that branches on the past stands here or in the router that it calls.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from roboco.domain.action import Action, AppendStep, CallTools, End, StartTurn, Wait
from roboco.domain.answers import answered_here, is_told, resolutions, waits_for_person
from roboco.domain.builtin import HANDOFF
from roboco.domain.history import RESULTS_ARE_IN, History
from roboco.domain.inbox import Item, Message, Stop
from roboco.domain.outcome import Outcome, failure, unknown
from roboco.domain.part import ArtifactPart, ErrorPart, Part, TextPart, ToolCall, ToolResultPart
from roboco.domain.router import Route, Router, route
from roboco.domain.status import TaskStatus
from roboco.domain.step import ORCHESTRATOR, TOOL_EXECUTOR, USER, TaskStep
from roboco.domain.team import END, TO_USER, Limits, Team

STOPPED = "stopped"


@dataclass(frozen=True)
class Situation:
    """What stands beside the history: inbox in order, results so far, seconds since the task was submitted.

    `exhausted` says why no further attempt is made, at the pending turn or at the task, if that is so.
    """

    inbox: tuple[Item, ...] = ()
    outcomes: Mapping[str, Outcome] = field(default_factory=dict)
    seconds: float = 0.0
    exhausted: str | None = None


def decide(team: Team, history: History, situation: Situation, router: Router = route) -> Action:
    """The one thing to do now."""
    if (ended := _ended(history.last)) is not None:
        return ended
    stop = next((item for item in situation.inbox if isinstance(item, Stop)), None)
    if open_calls(history):
        return _answer_calls(team, history.last, situation, stop.reason if stop else situation.exhausted)
    if stop is not None:
        return _error(STOPPED, stop.reason, item_id=stop.item_id)
    if situation.exhausted is not None:
        return _error("attempts", situation.exhausted)
    message = next((item for item in situation.inbox if isinstance(item, Message)), None)
    if message is not None:
        return _take(team, history, message, router)
    return _go_on(team, history, situation, router)


def open_calls(history: History) -> tuple[ToolCall, ...]:
    """The calls of the last step, which have no result yet."""
    return history.last.calls


def _ended(last: TaskStep) -> End | None:
    if last.error is None or last.agent_name in (USER, TOOL_EXECUTOR):
        return None
    status = TaskStatus.CANCELLED if last.error.code == STOPPED else TaskStatus.FAILED
    return End(status, last.error.message)


def _error(code: str, message: str, item_id: str | None = None) -> AppendStep:
    metadata = {} if item_id is None else {"item_id": item_id}
    item_ids = () if item_id is None else (item_id,)
    return AppendStep(ORCHESTRATOR, (ErrorPart(code=code, message=message),), metadata, item_ids)


def _answer_calls(team: Team, step: TaskStep, situation: Situation, ended: str | None) -> Action:
    resolved = resolutions(step, situation.inbox, situation.outcomes)
    answers = {**answered_here(team, step), **situation.outcomes}
    answers |= {call_id: one.outcome for call_id, one in resolved.items()}
    if ended is None:
        if missing := tuple(call for call in step.calls if call.id not in answers):
            return CallTools(missing)
        if asked := [call for call in step.calls if waits_for_person(answers[call.id])]:
            return _ask(team, asked)
    else:
        closed = {call.id: _closed(team, call, ended) for call in step.calls}
        answers = closed | answers
    outcomes = [answers[call.id] for call in step.calls]
    untold = tuple(outcome for outcome in outcomes if not is_told(outcome.result.tool_call_id, situation.outcomes))
    items = {call_id: one.item_id for call_id, one in resolved.items()}
    parts: list[Part] = []
    for outcome in outcomes:
        parts.append(ToolResultPart(tool_result=outcome.result))
        parts.extend(ArtifactPart(artifact=artifact) for artifact in outcome.artifacts)
    return AppendStep(TOOL_EXECUTOR, tuple(parts), {"resolved": items} if items else {}, tuple(items.values()), untold)


def _closed(team: Team, call: ToolCall, ended: str) -> Outcome:
    """What is said of a call whose result nobody waits for any more."""
    spec = team.tool(call.tool_name)
    if spec is None or spec.effect != "irreversible":
        return failure(call.id, f"not finished: {ended}")
    return unknown(call.id, f"the task was ended before its result was in ({ended})", "tell")


def _ask(team: Team, calls: list[ToolCall]) -> Wait:
    named = ", ".join(f"{call.tool_name} ({call.id})" for call in calls)
    reason = f"nobody knows whether this had its effect, and a person must say so: {named}"
    return Wait(TaskStatus.APPROVAL, Route(TO_USER, team.collaboration_model.type, "on_unknown", reason))


def _take(team: Team, history: History, message: Message, router: Router) -> AppendStep:
    metadata: dict[str, object] = {"item_id": message.item_id}
    if message.agent is not None:
        metadata["agent"] = message.agent
    if history.last.by_agent and (chosen := router(team, history)).to == TO_USER:
        metadata["routing"] = chosen.record()
    return AppendStep(USER, (TextPart(text=message.text),), metadata, (message.item_id,))


def _go_on(team: Team, history: History, situation: Situation, router: Router) -> Action:
    chosen, handed_off_by = _next(team, history, router)
    if chosen.to == END:
        return End(TaskStatus.COMPLETED, chosen.reason)
    if chosen.to == TO_USER:
        return Wait(TaskStatus.USER_TURN, chosen)
    if chosen.to not in {agent.name for agent in team.agents}:
        possible = ", ".join(agent.name for agent in team.agents)
        told = f"router {chosen.router!r} chose {chosen.to!r}, possible are {possible}, {END} and {TO_USER}"
        return _error("router", f"{told} ({chosen.reason})")
    if (limit := _limit(team.limits, history, situation.seconds)) is not None:
        return _error("limit", limit)
    return StartTurn(chosen.to, chosen, handed_off_by)


def _next(team: Team, history: History, router: Router) -> tuple[Route, str | None]:
    pending = _results_that_wait(history)
    if pending is None:
        return router(team, history), None
    step, answered = pending
    calls = {call.id: call for call in step.calls}
    kind = team.collaboration_model.type
    for result in answered.results:
        call = calls[result.tool_call_id]
        if call.tool_name == HANDOFF and not result.is_error:
            to, reason = str(call.args["destination_agent"]), str(call.args.get("reason", ""))[:500]
            candidates = team.agent(step.agent_name).handoffs
            return Route(to, kind, HANDOFF, reason or f"{step.agent_name} handed off", candidates), step.agent_name
    return Route(step.agent_name, kind, RESULTS_ARE_IN, "the results of its tool calls are in"), None


def _results_that_wait(history: History) -> tuple[TaskStep, TaskStep] | None:
    """The step with calls and the one with their results, if no agent has acted since.

    A message of the user that came meanwhile changes nothing, unless it names who answers.
    """
    steps = history.tail
    while steps and steps[-1].agent_name == USER and "agent" not in steps[-1].metadata:
        steps = steps[:-1]
    return (steps[-2], steps[-1]) if len(steps) > 1 and steps[-1].agent_name == TOOL_EXECUTOR else None


def _limit(limits: Limits, history: History, seconds: float) -> str | None:
    state = history.state
    if state.steps >= limits.max_steps:
        return f"the task has {state.steps} steps, max_steps is {limits.max_steps}"
    if limits.max_tokens is not None and state.tokens >= limits.max_tokens:
        return f"the task has used {state.tokens} tokens, max_tokens is {limits.max_tokens}"
    if limits.max_seconds is not None and seconds >= limits.max_seconds:
        return f"the task has run for {seconds:.0f} s, max_seconds is {limits.max_seconds:g}"
    return None
