"""Rests: a server that does not answer is left alone for a while, so that it does not hold up a whole pool."""

import threading
import time
from collections.abc import Callable

from roboco.errors import TransientError

FIRST = 30.0
"""Seconds of the first rest; each next one is twice as long."""
LONGEST = 600.0
MOST = 1000
"""How many servers are remembered."""


class Rests:
    """Which servers have a rest, in this process."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._resting: dict[str, tuple[float, float]] = {}

    def check(self, server: str) -> None:
        """TransientError while the server has a rest."""
        with self._lock:
            until, pause = self._resting.get(server, (0.0, 0.0))
        if until > self._clock():
            raise TransientError(f"{server} has not answered, and is left alone for {pause:g} s")

    def begin(self, server: str) -> None:
        """The server has not answered."""
        with self._lock:
            _, before = self._resting.pop(server, (0.0, 0.0))
            pause = min(before * 2 or FIRST, LONGEST)
            self._resting[server] = (self._clock() + pause, pause)
            if len(self._resting) > MOST:
                del self._resting[next(iter(self._resting))]

    def end(self, server: str) -> None:
        """The server has answered."""
        with self._lock:
            self._resting.pop(server, None)
