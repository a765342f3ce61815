"""Spent: what an agent, a tool or a whole task has used."""

from typing import Any

from roboco.domain.schema import Recorded

BROKEN = "broken"
"""Where the metadata of a step tells what answers had used that broke before it (an estimate), and whose."""


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


def spent_by(metadata: dict[str, Any]) -> Spent:
    """What a step has used, as its metadata says, with the answers that broke before it."""
    timings = metadata.get("timings") or {}
    used = _usage_of(metadata.get("usage")).plus(broken_before(metadata))
    return used.model_copy(update={"steps": 1, "seconds": number(timings.get("duration_ms")) / 1000})


def broken_before(metadata: dict[str, Any]) -> Spent:
    """What answers that broke before the step had used, as its metadata says."""
    return _usage_of(metadata.get(BROKEN))


def _usage_of(told: Any) -> Spent:
    usage = told if isinstance(told, dict) else {}
    return Spent(
        tokens_in=int(number(usage.get("tokens_in"))),
        tokens_out=int(number(usage.get("tokens_out"))),
        cost=number(usage.get("cost")),
    )


def number(value: Any) -> float:
    """The value if it is a number, else 0."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else 0
