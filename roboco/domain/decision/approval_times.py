"""Approval times: when a call stops to wait for a person, and when the person is reminded of it.

All times count from the step with the call. So they follow from the history, and survive any loss of Redis.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

from roboco.domain.history.part import ToolCall
from roboco.domain.history.step import TaskStep
from roboco.domain.team.team import Team

UNTIL = "; until "
"""Begins the first expiry in the reason of a task that waits for approvals."""
REMINDER = "; reminder "
"""Begins the number of reminders at the end of the reason of a task that waits for approvals."""


def expiry_of(team: Team, step: TaskStep, call: ToolCall) -> datetime | None:
    """Return the time at which the call stops to wait for a person, or None if it never does."""
    spec = team.tool(call.tool_name)
    if spec is None or spec.expires is None:
        return None
    return step.created_at + timedelta(seconds=spec.expires)


def count_reminders(team: Team, calls: Iterable[ToolCall], age: float) -> int:
    """Return how many reminders of the calls of a step of this age are due. Their intervals double."""
    count = 0
    for call in calls:
        due = _first_reminder(team, call)
        while due is not None and age >= due:
            count, due = count + 1, due * 2
    return count


def next_time(team: Team, step: TaskStep, calls: Iterable[ToolCall], age: float) -> float | None:
    """Return the age of the step at which the next reminder or expiry is due, or None if none is."""
    times: list[float] = []
    for call in calls:
        if (expiry := expiry_of(team, step, call)) is not None:
            times.append((expiry - step.created_at).total_seconds())
        if (due := _first_reminder(team, call)) is not None:
            while age >= due:
                due *= 2
            times.append(due)
    return min(times, default=None)


def _first_reminder(team: Team, call: ToolCall) -> float | None:
    spec = team.tool(call.tool_name)
    return None if spec is None else spec.remind
