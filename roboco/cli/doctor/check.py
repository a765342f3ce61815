"""Check: one line of `roboco doctor`: a finding and its remedy."""

from dataclasses import asdict, dataclass
from typing import Literal

State = Literal["ok", "warn", "fail"]


@dataclass(frozen=True)
class Check:
    """The result of one check."""

    name: str
    state: State
    found: str
    todo: str = ""
    """The remedy, or "" if none is needed."""

    def record(self) -> dict[str, str]:
        """Return the check as JSON."""
        return asdict(self)


def wanted(name: str, right: bool, found: str, todo: str, otherwise: State = "warn") -> Check:
    """Return the check of a condition that should be true; if it is not, `todo` is the remedy."""
    return Check(name, "ok" if right else otherwise, found, "" if right else todo)
