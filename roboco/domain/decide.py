"""decide: what happens next, as a pure function of what has happened.

Everything that branches on the past stands here or in the router that it calls.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from roboco.domain.action import Action, AppendStep, CallTools, End, StartTurn, Wait
from roboco.domain.answers import (
    answered_here,
    is_client,
    is_told,
    needs_approval,
    told_outside,
    verdicts,
    waits_for_person,
)
from roboco.domain.builtin import ACHIEVE, DELEGATE, HANDOFF
from roboco.domain.goal import correction
from roboco.domain.history import RESULTS_ARE_IN, History
from roboco.domain.inbox import Item, Message, Stop, is_held
from roboco.domain.outcome import Outcome, failure, unknown
from roboco.domain.part import ArtifactPart, ErrorPart, Part, TextPart, ToolCall, ToolResultPart
from roboco.domain.router import Route, Router, route
from roboco.domain.state import ACHIEVED, CORRECTS
from roboco.domain.status import TaskStatus
from roboco.domain.step import ORCHESTRATOR, TOOL_EXECUTOR, USER, TaskStep
from roboco.domain.team import END, TO_USER, Limits, Team

STOPPED = "stopped"
GOALS = "goals"
INTERRUPTED = "the user interrupted the work"


@dataclass(frozen=True)
class Situation:
    """What stands beside the history: inbox in order, results so far, seconds since the task was submitted or forked.

    `exhausted` says why no further attempt is made, at the pending turn or at the task, if that is so. A `sub_task`
    has no user: where it would wait for a message, it is done.
    """

    inbox: tuple[Item, ...] = ()
    outcomes: Mapping[str, Outcome] = field(default_factory=dict)
    seconds: float = 0.0
    exhausted: str | None = None
    sub_task: bool = False

    @property
    def stop(self) -> Stop | None:
        """The user's wish that the task ends."""
        return next((item for item in self.inbox if isinstance(item, Stop)), None)

    @property
    def interruption(self) -> Message | None:
        """The oldest message that interrupts."""
        return next((item for item in self.inbox if isinstance(item, Message) and item.interrupts), None)

    @property
    def ended(self) -> str | None:
        """Why nobody waits any more for what is being done."""
        if self.stop is not None:
            return self.stop.reason
        return self.exhausted or (INTERRUPTED if self.interruption else None)


def decide(team: Team, history: History, situation: Situation, router: Router = route) -> Action:
    """The one thing to do now."""
    if (ended := _ended(history.last)) is not None:
        return ended
    if open_calls(history):
        return _answer_calls(team, history, situation)
    if situation.stop is not None:
        return _error(STOPPED, situation.stop.reason, item_id=situation.stop.item_id)
    if situation.exhausted is not None:
        return _error("attempts", situation.exhausted)
    held = is_held(situation.inbox, history.state.steps)
    queued = None if held else next((item for item in situation.inbox if isinstance(item, Message)), None)
    if (message := situation.interruption or queued) is not None:
        return _take(team, history, message, router)
    return _paused(team) if held else _go_on(team, history, situation, router)


def open_calls(history: History) -> tuple[ToolCall, ...]:
    """The calls of the last step, which have no result yet."""
    return history.last.calls


_STATUS = {STOPPED: TaskStatus.CANCELLED, GOALS: TaskStatus.GOALS_FAILED}


def _ended(last: TaskStep) -> End | None:
    if last.error is None or last.agent_name in (USER, TOOL_EXECUTOR):
        return None
    return End(_STATUS.get(last.error.code, TaskStatus.FAILED), last.error.message)


def _error(code: str, message: str, item_id: str | None = None) -> AppendStep:
    metadata = {} if item_id is None else {"item_id": item_id}
    item_ids = () if item_id is None else (item_id,)
    return AppendStep(ORCHESTRATOR, (ErrorPart(code=code, message=message),), metadata, item_ids)


def _paused(team: Team) -> Wait:
    return _wait(team, TaskStatus.PAUSED, "paused", "paused by the user")


def _wait(team: Team, status: TaskStatus, rule: str, reason: str, calls: Sequence[ToolCall] = ()) -> Wait:
    named = f"{reason}: {', '.join(f'{call.tool_name} ({call.id})' for call in calls)}" if calls else reason
    route = Route(TO_USER, team.collaboration_model.type, rule, named)
    return Wait(status, route, tuple(call.id for call in calls))


def _answer_calls(team: Team, history: History, situation: Situation) -> Action:
    step = history.last
    told = told_outside(step, situation.inbox, situation.outcomes)
    answers = {**answered_here(team, history.state, step), **situation.outcomes}
    answers |= {call_id: one.outcome for call_id, one in told.items()}
    missing = tuple(call for call in step.calls if call.id not in answers)
    given_up: tuple[ToolCall, ...] = ()
    if situation.ended is None:
        if missing:
            return _have_answered(team, history, situation, missing)
        if asked := [call for call in step.calls if waits_for_person(answers[call.id])]:
            return _ask(team, asked)
    else:
        closed = {call.id: _closed(team, step, call, situation, situation.ended) for call in step.calls}
        answers = closed | answers
        given_up = tuple(call for call in missing if call.tool_name == DELEGATE)
    outcomes = [answers[call.id] for call in step.calls]
    untold = tuple(outcome for outcome in outcomes if not is_told(outcome.result.tool_call_id, situation.outcomes))
    metadata = _about_results(team, step, situation, outcomes)
    approvals = (metadata.get("approvals") or {}).values()
    items = tuple({*(metadata.get("resolved") or {}).values(), *(str(one["item_id"]) for one in approvals)})
    return AppendStep(TOOL_EXECUTOR, _parts(outcomes), metadata, items, untold, given_up)


def _have_answered(team: Team, history: History, situation: Situation, missing: tuple[ToolCall, ...]) -> Action:
    """Have the calls run that may be, or wait for who answers the others."""
    judged = verdicts(history.last, situation.inbox)
    asked = [call for call in missing if needs_approval(team, call) and call.id not in judged]
    run = tuple(call for call in missing if call not in asked and not is_client(call))
    if run:
        return _paused(team) if is_held(situation.inbox, history.state.steps) else CallTools(run)
    if asked:
        return _wait(team, TaskStatus.APPROVAL, "approval", "a person must approve", asked)
    return _wait(team, TaskStatus.CLIENT_TOOL_TURN, "client tools", "the client must run", missing)


def _parts(outcomes: list[Outcome]) -> tuple[Part, ...]:
    parts: list[Part] = []
    for outcome in outcomes:
        parts.append(ToolResultPart(tool_result=outcome.result))
        parts.extend(ArtifactPart(artifact=artifact) for artifact in outcome.artifacts)
    return tuple(parts)


def _about_results(team: Team, step: TaskStep, situation: Situation, outcomes: list[Outcome]) -> dict[str, Any]:
    """What the metadata of a step of results says of where they came from."""
    told = {call_id: one.item_id for call_id, one in told_outside(step, situation.inbox, situation.outcomes).items()}
    judged = {
        call_id: {"approved": one.approved, "reason": one.reason, "args": one.args, "item_id": one.item_id}
        for call_id, one in verdicts(step, situation.inbox).items()
    }
    well = {outcome.result.tool_call_id for outcome in outcomes if not outcome.result.is_error}
    achieved = {
        call.tool_name.removeprefix(ACHIEVE): call.id
        for call in step.calls
        if call.id in well and call.tool_name.startswith(ACHIEVE) and team.tool(call.tool_name) is None
    }
    usage = _usage(outcomes)
    told = {call_id: str(one["item_id"]) for call_id, one in judged.items()} | told
    about = {"resolved": told, "approvals": judged, ACHIEVED: achieved, "usage": usage}
    return {name: value for name, value in about.items() if value}


def _usage(outcomes: list[Outcome]) -> dict[str, int]:
    """What the sub-tasks of the calls have used."""
    used = [outcome.usage for outcome in outcomes if outcome.usage]
    return {name: sum(one.get(name, 0) for one in used) for name in ("tokens_in", "tokens_out")} if used else {}


def _closed(team: Team, step: TaskStep, call: ToolCall, situation: Situation, ended: str) -> Outcome:
    """What is said of a call whose result nobody waits for any more."""
    spec = team.tool(call.tool_name)
    if needs_approval(team, call) and call.id not in verdicts(step, situation.inbox):
        return failure(call.id, f"not run, since it was not approved before: {ended}")
    if spec is None or spec.effect != "irreversible":
        return failure(call.id, f"not finished: {ended}")
    return unknown(call.id, f"the call was ended before its result was in ({ended})", "tell")


def _ask(team: Team, calls: list[ToolCall]) -> Wait:
    reason = "nobody knows whether this had its effect, and a person must say so"
    return _wait(team, TaskStatus.APPROVAL, "on_unknown", reason, calls)


def _take(team: Team, history: History, message: Message, router: Router) -> AppendStep:
    metadata: dict[str, object] = {"item_id": message.item_id} | message.brought
    if message.agent is not None:
        metadata["agent"] = message.agent
    if message.interrupts:
        metadata["interrupts"] = True
    last = history.last
    if last.by_agent and not last.interrupted and (chosen := router(team, history)).to == TO_USER:
        metadata["routing"] = chosen.record()
    return AppendStep(USER, (TextPart(text=message.text),), metadata, (message.item_id,))


def _go_on(team: Team, history: History, situation: Situation, router: Router) -> Action:
    chosen, handed_off_by = _next(team, history, router)
    if chosen.to in (END, TO_USER):
        return _rest(team, history, situation, chosen)
    if chosen.to not in {agent.name for agent in team.agents}:
        possible = ", ".join(agent.name for agent in team.agents)
        told = f"router {chosen.router!r} chose {chosen.to!r}, possible are {possible}, {END} and {TO_USER}"
        return _error("router", f"{told} ({chosen.reason})")
    if (limit := _limit(team.limits, history, situation.seconds)) is not None:
        return _error("limit", limit)
    return StartTurn(chosen.to, chosen, handed_off_by)


def _rest(team: Team, history: History, situation: Situation, chosen: Route) -> Action:
    """The work is done, or it is the user's turn; unless goals are still open."""
    if goals := [goal.name for goal in history.state.open_goals]:
        if history.state.corrections >= team.limits.goal_prompts:
            return _error(GOALS, f"not achieved: {', '.join(goals)}")
        about = {CORRECTS: goals, "routing": chosen.record()}
        return AppendStep(ORCHESTRATOR, (TextPart(text=correction(goals)),), about)
    if chosen.to == TO_USER and not situation.sub_task:
        return Wait(TaskStatus.USER_TURN, chosen)
    return End(TaskStatus.COMPLETED, chosen.reason)


def _next(team: Team, history: History, router: Router) -> tuple[Route, str | None]:
    kind = team.collaboration_model.type
    if history.last.agent_name == ORCHESTRATOR:
        last_agent = history.state.last_agent
        agent = last_agent if last_agent is not None and team.has(last_agent) else team.initial_agent
        return Route(agent, kind, "goals", "goals are still open"), None
    last = _before_messages(history)
    if last and last[-1].interrupted and team.has(last[-1].agent_name):
        agent = last[-1].agent_name
        return Route(agent, kind, "interrupted", f"{agent} was interrupted, and goes on with what the user said"), None
    if len(last) < 2 or last[-1].agent_name != TOOL_EXECUTOR or not team.has(last[-2].agent_name):
        return router(team, history), None
    return _after_results(team, last[-2], last[-1])


def _after_results(team: Team, step: TaskStep, answered: TaskStep) -> tuple[Route, str | None]:
    calls = {call.id: call for call in step.calls}
    kind = team.collaboration_model.type
    for result in answered.results:
        call = calls[result.tool_call_id]
        if call.tool_name == HANDOFF and not result.is_error and team.has(str(call.args["destination_agent"])):
            to, reason = str(call.args["destination_agent"]), str(call.args.get("reason", ""))[:500]
            candidates = team.agent(step.agent_name).handoffs
            return Route(to, kind, HANDOFF, reason or f"{step.agent_name} handed off", candidates), step.agent_name
    return Route(step.agent_name, kind, RESULTS_ARE_IN, "the results of its tool calls are in"), None


def _before_messages(history: History) -> tuple[TaskStep, ...]:
    """The newest steps up to the last one that is no message of the user.

    A message that came meanwhile changes nothing of who goes on, unless it names who answers.
    """
    steps = history.tail
    while steps and steps[-1].agent_name == USER and "agent" not in steps[-1].metadata:
        steps = steps[:-1]
    return steps


def _limit(limits: Limits, history: History, seconds: float) -> str | None:
    state = history.state
    if state.steps >= limits.max_steps:
        return f"the task has {state.steps} steps, max_steps is {limits.max_steps}"
    if limits.max_tokens is not None and state.tokens >= limits.max_tokens:
        return f"the task has used {state.tokens} tokens, max_tokens is {limits.max_tokens}"
    if limits.max_seconds is not None and seconds >= limits.max_seconds:
        return f"the task has run for {seconds:.0f} s, max_seconds is {limits.max_seconds:g}"
    return None
