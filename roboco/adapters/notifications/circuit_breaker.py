"""A circuit breaker: calls of a server that does not answer fail immediately for a while, so that it blocks no pool."""

import threading
import time
from collections.abc import Callable

from roboco.errors import TransientError

FIRST = 30.0
"""Seconds for which the circuit of a server stays open first; each next time is twice as long."""
LONGEST = 600.0
"""Seconds for which a circuit stays open at most."""
MOST = 1000
"""Servers that a process remembers."""


class Rests:
    """The servers of this process whose circuit is open: the last call got no answer."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._resting: dict[str, tuple[float, float]] = {}

    def check(self, server: str) -> None:
        """Raise TransientError while the circuit of the server is open."""
        with self._lock:
            until, pause = self._resting.get(server, (0.0, 0.0))
        if until > self._clock():
            raise TransientError(f"{server} did not answer; this worker does not call it for {pause:g} s")

    def begin(self, server: str) -> None:
        """Open the circuit: the server did not answer."""
        with self._lock:
            _, before = self._resting.pop(server, (0.0, 0.0))
            pause = min(before * 2 or FIRST, LONGEST)
            self._resting[server] = (self._clock() + pause, pause)
            if len(self._resting) > MOST:
                del self._resting[next(iter(self._resting))]

    def end(self, server: str) -> None:
        """Close the circuit: the server answered."""
        with self._lock:
            self._resting.pop(server, None)
