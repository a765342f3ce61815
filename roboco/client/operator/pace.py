"""Pace: a bounded number of actions a second, evenly."""

import time
from collections.abc import Callable
from typing import Final

from roboco.errors import UsageError

MAX_RATE: Final = 1000.0
"""Actions a second at most."""


class Pace:
    """Waits before each action. After a late action the next ones do not catch up."""

    def __init__(
        self, rate: float, now: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        if not 0 < rate <= MAX_RATE:
            raise UsageError(f"rate {rate:g} is not allowed: use more than 0, and at most {MAX_RATE:g} a second")
        self._interval = 1 / rate
        self._now = now
        self._sleep = sleep
        self._next = now()

    def wait(self) -> None:
        """Wait until the next action may begin."""
        if (left := self._next - self._now()) > 0:
            self._sleep(left)
        self._next = max(self._next, self._now()) + self._interval
