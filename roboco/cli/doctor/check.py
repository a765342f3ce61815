"""Check: one line of `roboco doctor`: a finding and its remedy."""

from dataclasses import dataclass
from typing import Final, Literal

from roboco.cli.terminal.screen import Screen

CheckState = Literal["ok", "warn", "fail"]
_COLOURS: Final = {"ok": "green", "warn": "yellow", "fail": "red"}


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


def print_check(screen: Screen, check: CheckResult, width: int, indent: str = "") -> None:
    """Print the check, with its name in a column of this width, and its remedy below."""
    screen.line(indent, (f"{check.state:<5}", _COLOURS[check.state]), f"{check.name:<{width}} {check.found}")
    if check.todo:
        screen.line((f"{indent}     {'':<{width}} → {check.todo}", "dim"))
