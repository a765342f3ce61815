"""decide: the next action of a task, as a pure function of its past.

All decisions that depend on the past are made here or in the router that it calls. It has no I/O, clock or randomness:
the same history and situation always lead to the same action. Therefore a coordinator that runs twice, or after a
crash, decides the same, and recorded histories can be replayed.
"""

from dataclasses import replace

from roboco.domain.builtin_tools import HANDOFF
from roboco.domain.canonical_json import canonical_json
from roboco.domain.decision.action import (
    ATTEMPTS,
    INTERRUPTED,
    WORKER_LOST_RULE,
    Action,
    AppendStep,
    End,
    Route,
    Situation,
    StartTurn,
    Wait,
    error_step,
)
from roboco.domain.decision.answer_checks import lacks_form, next_for_guards, route_after_form
from roboco.domain.decision.approvals import waiting
from roboco.domain.decision.budget import limit_reached
from roboco.domain.decision.router import Router, route
from roboco.domain.decision.tool_calls import next_for_calls, paused
from roboco.domain.decision.turn_without_model import answer_step, begin_turn, finish_map, refused_turn, start_map
from roboco.domain.history.goal import reminder
from roboco.domain.history.interruption import INTERRUPTED_BY_USER, InterruptionEffect, interrupted_step
from roboco.domain.history.part import ArtifactPart, ErrorPart, TextPart, ToolCall
from roboco.domain.history.state import AFTER_INVALID_OUTPUT, AFTER_RESULTS, REMINDED_GOALS, WRAP_UP_RULE, History
from roboco.domain.history.step import (
    ANSWER_FORM,
    INTERRUPTION,
    LIMIT,
    NEW_LIMITS,
    ORCHESTRATOR,
    TOOL_EXECUTOR,
    USER,
    TaskStep,
)
from roboco.domain.history.task_state import TaskState
from roboco.domain.inbox.item import Interrupt, UserMessage, blocking_pause
from roboco.domain.limits import RAISE_LIMIT_HINT, Limits
from roboco.domain.status import TaskStatus
from roboco.domain.team.collaboration import END, TO_USER, Manual
from roboco.domain.team.team import Team

STOPPED = "stopped"
GOALS = "goals"
LOOP = "loop"
APPROVAL_EXPIRED = "approval_expired"
ROUTER = "router"
ROUTER_LOST = "router_lost"


def decide(team: Team, history: History, situation: Situation, router: Router = route) -> Action:
    """Return the next action of the task."""
    router = route_after_form(router)
    limits = _current_limits(team, history, situation)
    ended = _ended(limits, history.last)
    waits = ended is not None and _waits_after_failure(ended, history, situation)
    if ended is not None and not waits:
        return ended
    if begun := next_for_calls(team, history, situation) if open_calls(history) else answer_step(team, history):
        return begun
    guarding = None if waits else next_for_guards(team, history, situation)
    first = _immediate_step(history.last, situation, waits) or guarding
    if first is not None:
        return first
    paused_at_limit = history.state.limit is not None and limits.at_limit == "pause"
    pause = blocking_pause(situation.inbox, history.state.steps)
    held = pause is not None or paused_at_limit
    if (item := situation.next_user_item(held)) is not None:
        return _applied_user_item(team, history, situation, item, router)
    if held and history.state.limit is not None:
        return waiting(team, TaskStatus.PAUSED, LIMIT, f"{history.state.limit}; {RAISE_LIMIT_HINT}")
    if pause is not None:
        return paused(team, pause)
    if ended is not None:
        return Wait(TaskStatus.USER_TURN, Route(TO_USER, team.collaboration_model.type, "failed", ended.reason))
    return _next_turn(team, limits, history, situation, router)


def failure_reason(team: Team, history: History, sub_task: bool) -> str | None:
    """Return the reason why the task fails with the last step of its history, or None if it does not."""
    ended = _ended(_current_limits(team, history, Situation(sub_task=sub_task)), history.last)
    return None if ended is None or ended.status is not TaskStatus.FAILED else ended.reason


def _current_limits(team: Team, history: History, situation: Situation) -> Limits:
    """Return the limits that apply now. A sub-task ends where it would pause, since no user can raise its limits."""
    limits = team.limits.with_overrides(history.state.limit_overrides)
    ends = situation.sub_task and limits.at_limit == "pause"
    return limits.model_copy(update={"at_limit": "end"}) if ends else limits


def _immediate_step(last: TaskStep, situation: Situation, waits: bool) -> AppendStep | None:
    """Return the step that takes precedence over the team's routing: an end, or raised limits.

    None if there is none. A conversation that `waits` after a failure has no work to give up.
    """
    if situation.stop is not None:
        return error_step(STOPPED, situation.stop.reason, situation.stop)
    if last.expired is not None:
        action, reason = last.expired
        return error_step(STOPPED if action == "stop" else APPROVAL_EXPIRED, reason)
    if situation.give_up_reason is not None and not waits:
        return error_step(ATTEMPTS, situation.give_up_reason)
    if (raised := situation.limit_change) is not None:
        text = TextPart(text=f"limits: {canonical_json(raised.limits)}")
        return AppendStep(ORCHESTRATOR, (text,), raised.origin() | {NEW_LIMITS: raised.limits}, (raised.item_id,))
    return None


def open_calls(history: History) -> tuple[ToolCall, ...]:
    """Return the calls of the last step, which have no result yet."""
    return history.last.calls


_STATUS = {STOPPED: TaskStatus.CANCELLED, GOALS: TaskStatus.GOALS_FAILED}


def _ended(limits: Limits, last: TaskStep) -> End | None:
    if last.error is None or last.agent_name in (USER, TOOL_EXECUTOR):
        return None
    if last.error.code == LIMIT and limits.at_limit != "end":
        return None
    return End(_STATUS.get(last.error.code, TaskStatus.FAILED), last.error.message)


def _waits_after_failure(ended: End, history: History, situation: Situation) -> bool:
    """Return True if a conversation waits for its user where other tasks fail: a turn has failed for good."""
    at_limit = history.last.error is not None and history.last.error.code == LIMIT
    final = at_limit or history.state.refused
    return ended.status is TaskStatus.FAILED and not final and history.state.conversation and not situation.sub_task


def _applied_user_item(
    team: Team, history: History, situation: Situation, item: UserMessage | Interrupt, router: Router
) -> AppendStep:
    if isinstance(item, UserMessage):
        return _applied_message(team, history, item, router)
    metadata = item.origin() | {INTERRUPTION: _effect_of_interruption(history, situation)}
    return AppendStep(ORCHESTRATOR, (TextPart(text=INTERRUPTED_BY_USER),), metadata, (item.item_id,))


def _effect_of_interruption(history: History, situation: Situation) -> InterruptionEffect:
    ended = interrupted_step(history.tail)
    if ended is not None and ended.interrupted:
        return "reply_ended"
    if ended is not None and any(INTERRUPTED in (result.error or "") for result in ended.results):
        return "calls_closed"
    return "turn_replaced" if situation.pending_turn else "nothing_running"


def _applied_message(team: Team, history: History, message: UserMessage, router: Router) -> AppendStep:
    metadata: dict[str, object] = message.origin() | message.attachments
    if message.agent is not None:
        metadata["agent"] = message.agent
    if message.interrupts:
        metadata["interrupts"] = True
    past = without_notices(history)
    if (
        past.last.by_agent
        and not (past.last.interrupted or past.last.invalid_output)
        and _is_users_turn(chosen := router(team, past), history.state)
        and not lacks_form(team, past)
    ):
        metadata["routing"] = chosen.record()
    files = (ArtifactPart(artifact=artifact) for artifact in message.artifacts)
    return AppendStep(USER, (TextPart(text=message.text), *files), metadata, (message.item_id,))


def _next_turn(team: Team, limits: Limits, history: History, situation: Situation, router: Router) -> Action:
    if history.state.interrupted:
        interrupted = Route(TO_USER, team.collaboration_model.type, "interrupted", INTERRUPTED_BY_USER)
        return _waiting_or_ended(interrupted, history.state, situation)
    if history.state.limit is not None:
        return _wrap_up(team, history)
    chosen, handed_off_by = _next_route(team, without_notices(history), router)
    if chosen.to in (END, TO_USER):
        return _finished_or_waiting(team, limits, history, situation, chosen)
    if chosen.to not in {agent.name for agent in team.agents}:
        possible = ", ".join(agent.name for agent in team.agents)
        problem = f"router {chosen.router!r} chose {chosen.to!r}, possible are {possible}, {END} and {TO_USER}"
        code = ROUTER_LOST if chosen.rule == WORKER_LOST_RULE else ROUTER
        return error_step(code, f"{problem} ({chosen.reason})")
    return _turn_of(team, limits, history, situation, chosen, handed_off_by)


def _turn_of(
    team: Team, limits: Limits, history: History, situation: Situation, chosen: Route, handed_off_by: str | None
) -> Action:
    """Return the turn of the chosen agent, or the step in place of it: of a map, a function, a loop or a limit."""
    agent = team.agent(chosen.to)
    if (results := finish_map(agent, history, chosen)) is not None:
        return results
    if (loop := history.state.loop.detect(limits)) is not None:
        return error_step(LOOP, loop)
    if (limit := limit_reached(limits, history.state, chosen.to, situation.seconds)) is not None:
        return limit_step(limit, chosen.to)
    if agent.map is not None:
        return start_map(agent.name, agent.map, history, chosen)
    if agent.has_model:
        return StartTurn(chosen.to, chosen, handed_off_by)
    refused = refused_turn(agent, limits, history)
    return begin_turn(agent, history, chosen, handed_off_by) if refused is None else limit_step(refused, chosen.to)


def limit_step(limit: str, agent: str) -> AppendStep:
    """Return the step that records a reached limit at the agent's turn.

    The task ends with it, pauses, or is wrapped up.
    """
    return AppendStep(ORCHESTRATOR, (ErrorPart(code=LIMIT, message=limit),), {LIMIT: agent})


def without_notices(history: History) -> History:
    """Return the history as routers see it: without steps that report a limit or an interruption."""
    tail = tuple(step for step in history.tail if not step.is_notice)
    return replace(history, tail=tail or history.tail)


def _wrap_up(team: Team, history: History) -> Action:
    """Return the action at a limit of a team that wraps up: one last turn, and then the end."""
    state, kind = history.state, team.collaboration_model.type
    if state.wrapped_up and state.open_goals:
        return _goals_error(state)
    if state.wrapped_up:
        return End(TaskStatus.COMPLETED, f"wrapped up, since {state.limit}")
    agent = _wrapping_agent(team, state)
    if agent is None and state.open_goals:
        return _goals_error(state)
    if agent is None:
        return End(TaskStatus.COMPLETED, f"ended, since {state.limit}")
    return StartTurn(agent, Route(agent, kind, WRAP_UP_RULE, str(state.limit)))


def _goals_error(state: TaskState) -> AppendStep:
    return error_step(GOALS, f"not achieved: {', '.join(goal.name for goal in state.open_goals)}; {state.limit}")


def _wrapping_agent(team: Team, state: TaskState) -> str | None:
    """Return the agent that makes the last turn, or None if no agent has a model."""
    names = [agent.name for agent in team.agents if agent.has_model]
    return next((name for name in (state.limited_agent, team.initial_agent, *names) if name in names), None)


def _finished_or_waiting(team: Team, limits: Limits, history: History, situation: Situation, chosen: Route) -> Action:
    """Return the action if the route is "END" or "USER": a reminder while goals are open, else a wait or the end."""
    if goals := [goal.name for goal in history.state.open_goals]:
        if history.state.reminders >= limits.goal_prompts:
            return error_step(GOALS, f"not achieved: {', '.join(goals)}")
        about = {REMINDED_GOALS: goals, "routing": chosen.record()}
        return AppendStep(ORCHESTRATOR, (TextPart(text=reminder(goals)),), about)
    if lacks_form(team, past := without_notices(history)):
        agent = past.last.agent_name
        reason = f"{agent} answers in the form that the message demands"
        asked = Route(agent, chosen.router, ANSWER_FORM, reason, (chosen.to,))
        return _turn_of(team, limits, history, situation, asked, None)
    return _waiting_or_ended(chosen, history.state, situation)


def _is_users_turn(chosen: Route, state: TaskState) -> bool:
    """Return True if the route leads to the user, or to the end of a conversation, which waits there instead."""
    return chosen.to == TO_USER or (state.conversation and chosen.to == END)


def _waiting_or_ended(chosen: Route, state: TaskState, situation: Situation) -> Wait | End:
    """Return the wait for a message of the user, or the end of the task. A sub-task has no user, so it ends."""
    if _is_users_turn(chosen, state) and not situation.sub_task:
        return Wait(TaskStatus.USER_TURN, chosen)
    return End(TaskStatus.COMPLETED, chosen.reason)


def _next_route(team: Team, history: History, router: Router) -> tuple[Route, str | None]:
    kind = team.collaboration_model.type
    if history.last.agent_name == ORCHESTRATOR:
        last_agent = history.state.last_agent
        agent = last_agent if last_agent is not None and team.has_agent(last_agent) else team.initial_agent
        return Route(_achiever(team, history.state, agent), kind, "goals", "goals are still open"), None
    last = _without_new_messages(history)
    if last and last[-1].interrupted and team.has_agent(last[-1].agent_name):
        agent = last[-1].agent_name
        reason = f"{agent} was interrupted, and continues with the user's message"
        return Route(agent, kind, "interrupted", reason), None
    if last and last[-1].invalid_output and team.has_agent(last[-1].agent_name):
        agent, routing = last[-1].agent_name, last[-1].metadata.get("routing") or {}
        due = tuple(routing.get("candidates", ())) if routing.get("rule") in (ANSWER_FORM, AFTER_INVALID_OUTPUT) else ()
        reason = f"{agent} is asked again: {last[-1].invalid_output}"
        return Route(agent, kind, AFTER_INVALID_OUTPUT, reason, due), None
    if len(last) < 2 or last[-1].agent_name != TOOL_EXECUTOR or not team.has_agent(last[-2].agent_name):
        return router(team, history), None
    return _after_results(team, last[-2], last[-1], asked=history.last.agent_name == USER)


def _achiever(team: Team, state: TaskState, agent: str) -> str:
    """Return the agent if it may achieve an open goal, else the first one of the team that may."""
    able = [one.name for one in team.agents if any(one.achieves(goal.name, team) for goal in state.open_goals)]
    return agent if agent in able or not able else able[0]


def _after_results(team: Team, step: TaskStep, answered: TaskStep, asked: bool) -> tuple[Route, str | None]:
    """Return the route after these results. `asked` is True if a message of the user follows them."""
    calls = {call.id: call for call in step.calls}
    kind = team.collaboration_model.type
    for result in answered.results:
        call = calls[result.tool_call_id]
        if call.tool_name == HANDOFF and not result.is_error and team.has_agent(str(call.args["destination_agent"])):
            to, reason = str(call.args["destination_agent"]), str(call.args.get("reason", ""))[:500]
            candidates = team.agent(step.agent_name).handoffs
            if isinstance(team.collaboration_model, Manual) and not asked:
                after = f"{to} answers the next message: {step.agent_name} hands over to it"
                return Route(TO_USER, kind, HANDOFF, after, candidates), None
            return Route(to, kind, HANDOFF, reason or f"{step.agent_name} handed off", candidates), step.agent_name
    return Route(step.agent_name, kind, AFTER_RESULTS, "the results of its tool calls are in"), None


def _without_new_messages(history: History) -> tuple[TaskStep, ...]:
    """Return the newest steps without the user's latest messages.

    A message during work does not change which agent continues, unless the message names an agent.
    """
    steps = history.tail
    while steps and steps[-1].agent_name == USER and "agent" not in steps[-1].metadata:
        steps = steps[:-1]
    return steps
