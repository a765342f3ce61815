"""What was used, as people read it."""

from roboco.domain.history.step import TaskStep
from roboco.domain.usage import Spent, spent_by


def cost(amount: float) -> str:
    """The cost behind other facts; empty where nothing has a price."""
    return f" · cost {amount:.4g}" if amount else ""


def of_step(step: TaskStep) -> str:
    """What a step has used, by itself or by sub-tasks; empty if nothing."""
    spent = spent_by(step.metadata)
    if not spent.tokens and not spent.cost:
        return ""
    if not spent.tokens:  # of tools that have a price
        return cost(spent.cost).removeprefix(" · ")
    seconds = f" · {spent.seconds:.1f} s" if spent.seconds else ""
    return f"{spent.tokens_in} tokens in, {spent.tokens_out} out{seconds}{cost(spent.cost)}"


def counted(calls: int) -> str:
    """How many tool calls."""
    return "1 call" if calls == 1 else f"{calls} calls"


def spending(spent: Spent) -> str:
    """What an agent has used."""
    calls = f" · {counted(spent.calls)}" if spent.calls else ""
    tokens = f"{spent.tokens_in} tokens in, {spent.tokens_out} out"
    return f"{spent.steps} turns · {tokens}{calls} · {spent.seconds:.1f} s{cost(spent.cost)}"
