"""Usage, statuses and ages as text for people."""

import re
from typing import Final

from roboco.domain.history.step import TaskStep
from roboco.domain.status import TaskStatus
from roboco.domain.usage import Usage, usage_of

_UNCONDITIONAL: Final = re.compile(r"\bafter (\S+) always$")
"""The reason of an edge without a condition, as histories record it."""


def plain_reason(recorded: str) -> str:
    """Return the recorded reason of a choice or an end as a person would say it."""
    return _UNCONDITIONAL.sub(r"\1 has finished", recorded)


def cost_suffix(amount: float) -> str:
    """Return the cost, to append to other facts, or "" if it is 0."""
    return f" · cost {amount:.4g}" if amount else ""


def step_usage(step: TaskStep) -> str:
    """Return the usage of a step and its sub-tasks, or "" if it has used nothing."""
    spent = usage_of(step.metadata)
    if not spent.tokens and not spent.cost:
        return ""
    if not spent.tokens:  # of tools that have a price
        return cost_suffix(spent.cost).removeprefix(" · ")
    seconds = f" · {spent.seconds:.1f} s" if spent.seconds else ""
    return f"{spent.tokens_in} tokens in, {spent.tokens_out} out{seconds}{cost_suffix(spent.cost)}"


def agent_usage(spent: Usage) -> str:
    """Return the usage of an agent."""
    calls = f" · {counted(spent.calls, 'call')}" if spent.calls else ""
    tokens = f"{spent.tokens_in} tokens in, {spent.tokens_out} out"
    return f"{counted(spent.steps, 'turn')} · {tokens}{calls} · {spent.seconds:.1f} s{cost_suffix(spent.cost)}"


def status_colour(status: TaskStatus) -> str:
    """Return the colour of a status."""
    if status is TaskStatus.COMPLETED:
        return "green"
    return "red" if status.ended else "yellow"


def age(seconds: float) -> str:
    """Return a number of seconds in the largest unit that fits."""
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return the number with its noun."""
    return f"{number} {noun if number == 1 else plural or f'{noun}s'}"
