"""The clock."""

from typing import Protocol


class Clock(Protocol):
    """The time."""

    def now(self) -> float:
        """Return the time in Unix seconds."""

    def sleep(self, seconds: float) -> None:
        """Wait for this number of seconds."""
