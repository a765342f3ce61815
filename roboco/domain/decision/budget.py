"""Budget: the rest of the limits, and the part of it that is reserved before a call.

A turn may produce at most the tokens that are left after its input, so it cannot exceed them. The tool calls of one
step are counted one after the other before the first of them runs. Sub-tasks share the rest in equal parts. Therefore
work that runs at the same time cannot exceed a limit together.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from roboco.domain.history.part import ToolCall
from roboco.domain.history.task_state import TaskState
from roboco.domain.limits import Limits, ToolLimits, UsageLimits
from roboco.domain.team.model_profile import ModelProfile
from roboco.domain.usage import ModelUsage, Usage

_FIELDS = (
    ("max_steps", "steps", "has {:g} steps"),
    ("max_tokens", "tokens", "has used {:g} tokens"),
    ("max_tokens_in", "tokens_in", "has used {:g} tokens in"),
    ("max_tokens_out", "tokens_out", "has used {:g} tokens out"),
    ("max_seconds", "seconds", "has run for {:.0f} s"),
    ("max_calls", "calls", "has called tools {:g} times"),
    ("max_cost", "cost", "has cost {:g}"),
)


def limit_reached(limits: Limits, state: TaskState, agent: str, seconds: float) -> str | None:
    """Return the limit that prevents the agent's turn, or None. `seconds` is the age of the task."""
    task = _reached("the task", limits, state.usage.model_copy(update={"seconds": seconds}))
    return task or _reached(f"agent {agent}", limits.agent_limits(agent), state.agent_usage(agent))


def _reached(who: str, limits: UsageLimits, spent: Usage) -> str | None:
    for name, field, text in _FIELDS:
        limit, used = getattr(limits, name), getattr(spent, field)
        if limit is not None and used >= limit and name != "max_calls":  # the next call is refused instead
            return f"{who} {text.format(used)}, {name} is {limit:g}"
    return None


@dataclass(frozen=True)
class Reservation:
    """The reservation of a turn."""

    max_tokens: int | None = None
    """The output tokens that the limits leave. None is no limit."""
    refused: str = ""
    """The reason why the turn must not start, or ""."""


def reserve(limits: Limits, state: TaskState, agent: str, profile: ModelProfile, tokens_in: int) -> Reservation:
    """Return the reservation of the agent's turn with this number of input tokens.

    It is bounded by the rest of the task's limits, and by the rest of the agent's.
    """
    most: int | None = None
    for who, own, spent in (
        ("the task", limits, state.usage),
        (f"agent {agent}", limits.agent_limits(agent), state.agent_usage(agent)),
    ):
        left, why = _left_out(own, spent, profile, tokens_in)
        if left is not None and left < 1:
            return Reservation(refused=f"{who} {why}")
        most = min(filter(None, (most, left)), default=None)
    return Reservation(most)


def _left_out(limits: UsageLimits, spent: Usage, profile: ModelProfile, tokens_in: int) -> tuple[int | None, str]:
    """Return the output tokens that are left after the input, and a text about the nearest limit.

    None is no limit.
    """
    found: list[tuple[int, str]] = []
    needs = f"and the next turn sends about {tokens_in}"
    if limits.max_tokens is not None:
        left = limits.max_tokens - spent.tokens - tokens_in
        found.append((left, f"has used {spent.tokens} tokens, max_tokens is {limits.max_tokens}, {needs}"))
    if limits.max_tokens_in is not None and spent.tokens_in + tokens_in > limits.max_tokens_in:
        found.append((0, f"has used {spent.tokens_in} tokens in, max_tokens_in is {limits.max_tokens_in}, {needs}"))
    if limits.max_tokens_out is not None:
        left = limits.max_tokens_out - spent.tokens_out
        found.append((left, f"has used {spent.tokens_out} tokens out, max_tokens_out is {limits.max_tokens_out}"))
    if limits.max_cost is not None and profile.has_prices:
        money = limits.max_cost - spent.cost - profile.cost(ModelUsage(tokens_in))
        text = f"has cost {spent.cost:g}, max_cost is {limits.max_cost:g}, {needs}"
        if profile.price_out:
            found.append((int(money * 1_000_000 / profile.price_out), text))
        elif money < 0:
            found.append((0, text))
    return min(found, default=(None, ""))


def refused_calls(
    limits: Limits, state: TaskState, name: str, calls: Sequence[ToolCall], needed: Mapping[str, Usage]
) -> dict[str, str]:
    """Return the agent's calls that must not run, by id, with the reasons. `needed` is the possible usage of each call.

    Each allowed call reserves its possible usage before the next call is checked.
    """
    refused: dict[str, str] = {}
    counted = {call.tool_name: state.tool_usage(call.tool_name) for call in calls}
    reserved = Usage()
    for call in calls:
        more, used = needed[call.id], counted[call.tool_name]
        mistake = (
            _over_limits("the task", limits, state.usage.plus(reserved), more)
            or _over_limits(f"agent {name}", limits.agent_limits(name), state.agent_usage(name).plus(reserved), more)
            or _over_tool_limits(call.tool_name, limits.tools.get(call.tool_name, ToolLimits()), used, more)
        )
        if mistake:
            refused[call.id] = mistake
            continue
        reserved = reserved.plus(more)
        counted[call.tool_name] = used.plus(more)
    return refused


def _over_limits(who: str, limits: UsageLimits, used: Usage, more: Usage) -> str:
    if limits.max_calls is not None and used.calls >= limits.max_calls:
        return f"not run: {who} has used {used.calls} tool calls, max_calls is {limits.max_calls}"
    return _over_cost(who, limits.max_cost, used, more) if more.cost else ""


def _over_cost(who: str, limit: float | None, used: Usage, more: Usage) -> str:
    if limit is None or (used.cost < limit and used.plus(more).cost <= limit):
        return ""
    needs = f", and the call costs {more.cost:g}" if more.cost else ""
    return f"not run: {who} has cost, or may yet cost, {used.cost:g}, max_cost is {limit:g}{needs}"


def _over_tool_limits(name: str, limits: ToolLimits, used: Usage, more: Usage) -> str:
    if limits.max_calls is not None and used.calls >= limits.max_calls:
        return f"not run: {name} was called {used.calls} times in this task, max_calls is {limits.max_calls}"
    if limits.max_seconds is not None and used.seconds >= limits.max_seconds:
        return (
            f"not run: the calls of {name} have used, or may yet use, {used.seconds:g} seconds, max_seconds is "
            f"{limits.max_seconds:g}"
        )
    return _over_cost(name, limits.max_cost, used, more)


def sub_task_limits(limits: Limits, of_parent: UsageLimits, spent: Usage, parts: int) -> Limits:
    """Return the limits of a sub-task that is one of `parts`: an equal part of its parent's rest, if that is less.

    Unused tokens and cost return to the parent when the sub-task has ended. Steps and calls are the sub-task's own:
    they count for no other task.
    """
    given: dict[str, float | int] = {}
    for name, field, _ in _FIELDS:
        limit, own = getattr(of_parent, name), getattr(limits, name)
        if limit is not None:
            part = _share_of(name, limit - getattr(spent, field), parts)
            given[name] = part if own is None else min(own, part)
    return limits.model_copy(update=given)


def _share_of(name: str, left: float, parts: int) -> float:
    """Return the part of the rest that one of `parts` sub-tasks receives."""
    if name == "max_seconds":
        return max(0.001, left)
    if name == "max_cost":
        return max(1e-9, left / parts)
    return max(1, int(left) // (parts if "tokens" in name else 1))
