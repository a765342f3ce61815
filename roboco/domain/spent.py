"""Spent: what an agent, a tool or a whole task has used."""

from typing import Any

from roboco.domain.part import Recorded


class Spent(Recorded):
    """Steps, tokens, seconds of models or tools, tool calls, and money in the currency of the profiles' prices."""

    steps: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    seconds: float = 0.0
    calls: int = 0
    cost: float = 0.0

    @property
    def tokens(self) -> int:
        """Tokens in and out together."""
        return self.tokens_in + self.tokens_out

    def plus(self, more: "Spent") -> "Spent":
        """Both together."""
        return Spent(
            steps=self.steps + more.steps,
            tokens_in=self.tokens_in + more.tokens_in,
            tokens_out=self.tokens_out + more.tokens_out,
            seconds=round(self.seconds + more.seconds, 3),
            calls=self.calls + more.calls,
            cost=round(self.cost + more.cost, 9),
        )


def spent_by(metadata: dict[str, Any], steps: int = 1, calls: int = 0) -> Spent:
    """What a step has used, as its metadata says."""
    usage, timings = metadata.get("usage") or {}, metadata.get("timings") or {}
    return Spent(
        steps=steps,
        tokens_in=int(number(usage.get("tokens_in"))),
        tokens_out=int(number(usage.get("tokens_out"))),
        seconds=number(timings.get("duration_ms")) / 1000,
        calls=calls,
        cost=number(usage.get("cost")),
    )


def number(value: Any) -> float:
    """The value if it is a number, else 0."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else 0
