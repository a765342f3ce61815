"""approvals: the calls that wait for the approval of a person, with the times of their expiries and reminders.

All times count from the step with the call. So they follow from the history, and survive any loss of Redis.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from roboco.domain.decision.action import Route, Wait
from roboco.domain.decision.tool_answers import approval_decisions, local_answers, needs_approval
from roboco.domain.history.part import ToolCall, ToolOutcome
from roboco.domain.history.step import TaskStep
from roboco.domain.history.task_state import TaskState
from roboco.domain.inbox.item import Item
from roboco.domain.status import TaskStatus
from roboco.domain.team.approval import OnExpiry
from roboco.domain.team.collaboration import TO_USER
from roboco.domain.team.team import Team

UNTIL = "; until "
"""Begins the first expiry in the reason of a task that waits for approvals."""
REMINDER = "; reminder "
"""Begins the number of reminders at the end of the reason of a task that waits for approvals."""


def expiry_of(team: Team, step: TaskStep, call: ToolCall) -> tuple[datetime, OnExpiry] | None:
    """Return the time at which the call stops to wait for a person, and the consequence, or None if it never does."""
    spec = team.tool(call.tool_name)
    if spec is None or spec.expires is None:
        return None
    return step.created_at + timedelta(seconds=spec.expires), spec.on_expiry


def due_times(team: Team, calls: Iterable[ToolCall], age: float) -> tuple[int, float | None]:
    """Return how many reminders of the calls of a step of this age are due, and the age for the next time, or None.

    The intervals of reminders double. The next time is that of a reminder or an expiry.
    """
    count, times = 0, list[float]()
    for spec in (team.tool(call.tool_name) for call in calls):
        if spec is None:
            continue
        due = spec.remind
        while due is not None and age >= due:
            count, due = count + 1, due * 2
        times += [time for time in (spec.expires, due) if time is not None]
    return count, min(times, default=None)


def approval_wait(team: Team, step: TaskStep, asked: Sequence[ToolCall]) -> Wait:
    """Return the wait for the approval of these calls of the step."""
    wait = waiting(team, TaskStatus.APPROVAL, "approval", "a person must approve", asked)
    expiries = [(expiry_of(team, step, call), call.tool_name) for call in asked]
    times = [(found[0], tool, found[1]) for found, tool in expiries if found is not None]
    until = ""
    if times:
        expiry, tool, consequence = min(times)
        then = {"deny": f"{tool} is denied", "stop": "the task is stopped", "fail": "the task fails"}
        until = f"{UNTIL}{expiry:%Y-%m-%d %H:%M:%S} UTC, then {then[consequence]}"
    return replace(wait, route=replace(wait.route, reason=wait.route.reason + until))


def unapproved_calls(
    team: Team, state: TaskState, step: TaskStep, inbox: Sequence[Item], outcomes: Mapping[str, ToolOutcome]
) -> list[ToolCall]:
    """Return the calls of the step that wait for the approval of a person."""
    calls = [call for call in step.calls if needs_approval(team, call) and call.id not in outcomes]
    if not calls:
        return []
    done = {**local_answers(team, state, step), **approval_decisions(step, inbox)}
    return [call for call in calls if call.id not in done]


def waiting(team: Team, status: TaskStatus, rule: str, reason: str, calls: Sequence[ToolCall] = ()) -> Wait:
    """Return a wait in this status, for a person's or client's answer to the calls if there are some."""
    named = f"{reason}: {', '.join(f'{call.tool_name} ({call.id})' for call in calls)}" if calls else reason
    route = Route(TO_USER, team.collaboration_model.type, rule, named)
    return Wait(status, route, tuple(call.id for call in calls))
