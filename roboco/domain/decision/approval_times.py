"""Approval times: when a call stops to wait for a person, and when the person is reminded of it.

All times count from the step with the call. So they follow from the history, and survive any loss of Redis.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

from roboco.domain.history.part import ToolCall
from roboco.domain.history.step import TaskStep
from roboco.domain.team.approval import OnExpiry
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
