"""Usage: the usage of an agent, a tool or a whole task."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from operator import add
from typing import Any, Final

from roboco.domain.schema import RecordModel

BILLION: Final = 1_000_000_000
UNFINISHED_USAGE = "unfinished_usage"
"""The metadata key of a step for the usage of unfinished replies before it (an estimate), and their agent."""


@dataclass(frozen=True)
class ModelUsage:
    """The tokens of one model call, of all its requests together."""

    tokens_in: int = 0
    """Tokens of the prompt, with those that the provider read from or wrote to its cache."""
    tokens_out: int = 0
    """Generated tokens, with those of reasoning."""
    cached_in: int = 0
    """The part of `tokens_in` that the provider read from its cache."""
    cache_write: int = 0
    """The part of `tokens_in` that the provider wrote to its cache."""
    reasoning: int = 0
    """The part of `tokens_out` that was reasoning."""
    estimated: bool = False
    """True if the provider did not report all of it."""

    def plus(self, more: "ModelUsage") -> "ModelUsage":
        """Return the sum of both."""
        return replace(self._merged(more, add), estimated=self.estimated or more.estimated)

    def maximum(self, other: "ModelUsage") -> "ModelUsage":
        """Return the larger of both, count by count."""
        return replace(self._merged(other, max), estimated=self.estimated and other.estimated)

    def _merged(self, other: "ModelUsage", merge: Callable[[int, int], int]) -> "ModelUsage":
        counts = ("tokens_in", "tokens_out", "cached_in", "cache_write", "reasoning")
        merged: dict[str, Any] = {name: merge(getattr(self, name), getattr(other, name)) for name in counts}
        return replace(self, **merged)

    def metadata(self) -> dict[str, object]:
        """Return the usage as metadata of a step. Counts that are 0 and that not every model has are left out."""
        parts = {"cached_in": self.cached_in, "cache_write": self.cache_write, "reasoning": self.reasoning}
        counts: dict[str, object] = {"tokens_in": self.tokens_in, "tokens_out": self.tokens_out}
        counts |= {name: count for name, count in parts.items() if count}
        return counts | ({"estimated": True} if self.estimated else {})


class Usage(RecordModel):
    """The usage of an agent, a tool or a task."""

    steps: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    seconds: float = 0.0
    """Seconds of models or tools."""
    calls: int = 0
    """Tool calls."""
    cost: float = 0.0
    """Money in the currency of the profiles' prices."""

    @property
    def tokens(self) -> int:
        """Return input and output tokens together."""
        return self.tokens_in + self.tokens_out

    def plus(self, more: "Usage") -> "Usage":
        """Return the sum of both."""
        return Usage(
            steps=self.steps + more.steps,
            tokens_in=self.tokens_in + more.tokens_in,
            tokens_out=self.tokens_out + more.tokens_out,
            seconds=round(self.seconds + more.seconds, 3),
            calls=self.calls + more.calls,
            cost=round(self.cost + more.cost, 9),
        )


class DayUsage(RecordModel):
    """The usage of a task on one day, or that of all tasks of a tenant or caller."""

    day: str
    """The day in UTC: YYYY-MM-DD."""
    tokens: int = 0
    cost_billionths: int = 0
    """Billionths of the currency of the prices."""

    @property
    def cost(self) -> float:
        """Return the cost in the currency of the prices."""
        return self.cost_billionths / BILLION


def day_of(time: datetime) -> str:
    """Return the day of a time, in UTC."""
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC).date().isoformat()


def next_day(now: datetime) -> datetime:
    """Return the beginning of the day after a time in UTC."""
    return now.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)


def billionths(cost: float) -> int:
    """Return a cost in billionths."""
    return round(cost * BILLION)


def usage_of(metadata: dict[str, Any]) -> Usage:
    """Return the usage of a step from its metadata, including unfinished replies before it."""
    timings = metadata.get("timings") or {}
    tokens_in, tokens_out, cost = _recorded_usage(metadata.get("usage"))
    more_in, more_out, more_cost = _recorded_usage(metadata.get(UNFINISHED_USAGE))
    return Usage(
        steps=1,
        tokens_in=tokens_in + more_in,
        tokens_out=tokens_out + more_out,
        seconds=number_or_zero(timings.get("duration_ms")) / 1000,
        cost=round(cost + more_cost, 9),
    )


def unfinished_usage(metadata: dict[str, Any]) -> Usage:
    """Return the usage of unfinished replies before a step, from its metadata."""
    tokens_in, tokens_out, cost = _recorded_usage(metadata.get(UNFINISHED_USAGE))
    return Usage(tokens_in=tokens_in, tokens_out=tokens_out, cost=cost)


def tool_usage_of(metadata: dict[str, Any]) -> dict[str, Usage]:
    """Return the usage of the tools whose calls were run, by name, from the metadata of a step of results."""
    tools = metadata.get("tools") or {}
    return {
        str(name): Usage(
            calls=int(number_or_zero(one.get("calls"))),
            tokens_in=int(number_or_zero(one.get("tokens_in"))),
            tokens_out=int(number_or_zero(one.get("tokens_out"))),
            seconds=number_or_zero(one.get("seconds")),
            cost=number_or_zero(one.get("cost")),
        )
        for name, one in tools.items()
    }


def _recorded_usage(recorded: Any) -> tuple[int, int, float]:
    """Return the tokens in, the tokens out and the cost of recorded usage; zeros for what it lacks."""
    usage = recorded if isinstance(recorded, dict) else {}
    tokens_in, tokens_out = (int(number_or_zero(usage.get(name))) for name in ("tokens_in", "tokens_out"))
    return tokens_in, tokens_out, number_or_zero(usage.get("cost"))


def number_or_zero(value: Any) -> float:
    """Return the value if it is a number, else 0."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else 0
