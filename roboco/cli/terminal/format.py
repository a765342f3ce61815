"""Usage, statuses and ages as text for people."""

from roboco.domain.history.step import TaskStep
from roboco.domain.status import TaskStatus
from roboco.domain.usage import Spent, spent_by


def cost(amount: float) -> str:
    """Return the cost, to append to other facts, or "" if it is 0."""
    return f" · cost {amount:.4g}" if amount else ""


def of_step(step: TaskStep) -> str:
    """Return the usage of a step and its sub-tasks, or "" if it has used nothing."""
    spent = spent_by(step.metadata)
    if not spent.tokens and not spent.cost:
        return ""
    if not spent.tokens:  # of tools that have a price
        return cost(spent.cost).removeprefix(" · ")
    seconds = f" · {spent.seconds:.1f} s" if spent.seconds else ""
    return f"{spent.tokens_in} tokens in, {spent.tokens_out} out{seconds}{cost(spent.cost)}"


def counted(calls: int) -> str:
    """Return the number of tool calls in words."""
    return "1 call" if calls == 1 else f"{calls} calls"


def spending(spent: Spent) -> str:
    """Return the usage of an agent."""
    calls = f" · {counted(spent.calls)}" if spent.calls else ""
    tokens = f"{spent.tokens_in} tokens in, {spent.tokens_out} out"
    turns = "1 turn" if spent.steps == 1 else f"{spent.steps} turns"
    return f"{turns} · {tokens}{calls} · {spent.seconds:.1f} s{cost(spent.cost)}"


def colour(status: TaskStatus) -> str:
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
