"""A circuit breaker: calls of a server that does not answer fail immediately for a while, so that it blocks no pool."""

import threading
import time
from collections.abc import Callable

from roboco.errors import TransientError

FIRST_OPEN_SECONDS = 30.0
"""Seconds for which the circuit of a server stays open first; each next time is twice as long."""
MAX_OPEN_SECONDS = 600.0
"""Seconds for which a circuit stays open at most."""
MAX_SERVERS = 1000
"""Servers that a process remembers."""


class CircuitBreaker:
    """The servers of this process whose circuit is open: the last call got no answer."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._open_circuits: dict[str, tuple[float, float]] = {}

    def check(self, server: str) -> None:
        """Raise TransientError while the circuit of the server is open."""
        with self._lock:
            until, pause = self._open_circuits.get(server, (0.0, 0.0))
        if until > self._clock():
            raise TransientError(f"{server} did not answer; this worker does not call it for {pause:g} s")

    def record_failure(self, server: str) -> None:
        """Open the circuit: the server did not answer."""
        with self._lock:
            _, before = self._open_circuits.pop(server, (0.0, 0.0))
            pause = min(before * 2 or FIRST_OPEN_SECONDS, MAX_OPEN_SECONDS)
            self._open_circuits[server] = (self._clock() + pause, pause)
            if len(self._open_circuits) > MAX_SERVERS:
                del self._open_circuits[next(iter(self._open_circuits))]

    def record_success(self, server: str) -> None:
        """Close the circuit: the server answered."""
        with self._lock:
            self._open_circuits.pop(server, None)
