"""Check: one line of `roboco doctor`: a finding and its remedy."""

from dataclasses import dataclass
from typing import Literal

CheckState = Literal["ok", "warn", "fail"]


@dataclass(frozen=True)
class CheckResult:
    """The result of one check."""

    name: str
    state: CheckState
    found: str
    todo: str = ""
    """The remedy, or "" if none is needed."""


def expect(name: str, right: bool, found: str, todo: str, otherwise: CheckState = "warn") -> CheckResult:
    """Return the check of a condition that should be true; if it is not, `todo` is the remedy."""
    return CheckResult(name, "ok" if right else otherwise, found, "" if right else todo)
