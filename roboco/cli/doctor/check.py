"""Check: one line of `roboco doctor`: what was found, and what to do about it."""

from dataclasses import asdict, dataclass
from typing import Literal

State = Literal["ok", "warn", "fail"]


@dataclass(frozen=True)
class Check:
    """The result of one check; `todo` says what mends it."""

    name: str
    state: State
    found: str
    todo: str = ""

    def record(self) -> dict[str, str]:
        """The check as JSON has it."""
        return asdict(self)


def wanted(name: str, right: bool, found: str, todo: str, otherwise: State = "warn") -> Check:
    """The check of something that should be so; `todo` mends it where it is not."""
    return Check(name, "ok" if right else otherwise, found, "" if right else todo)
