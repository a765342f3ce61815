"""Counts of attempts on Redis, which find work that ends its workers."""

import uuid

from roboco.redis.keys import Keys
from roboco.redis.scripts import Scripts

COUNT_TTL = 86_400
"""Seconds after the last attempt for which Redis keeps a count."""
_LEASE_IS_HELD = -1


class RedisAttempts:
    """For each key, a set with an entry for each attempt that has not ended, and the lease of the running attempt."""

    def __init__(self, scripts: Scripts, keys: Keys, lease: float) -> None:
        self._scripts = scripts
        self._keys = keys
        self._lease_ms = int(lease * 1000)

    def start(self, key: str) -> int | None:
        """Start an attempt. Return the number of earlier ones that have not ended, or None if another one is live."""
        earlier = self._start(key, str(self._lease_ms))
        return None if earlier == _LEASE_IS_HELD else earlier

    def start_without_lease(self, key: str) -> int:
        """Start an attempt without a lease. Return the number of earlier attempts that have not ended."""
        return self._start(key, "")

    def finish(self, *keys: str) -> None:
        """Release the leases and reset the counts, in one command: the work has finished."""
        self._scripts.run("attempt_finish", [name for key in keys for name in self._names(key)])

    def _start(self, key: str, lease_ms: str) -> int:
        return int(self._scripts.run("attempt_start", self._names(key), uuid.uuid4().hex, lease_ms, COUNT_TTL))

    def _names(self, key: str) -> list[str]:
        return [self._keys.attempts(key), self._keys.attempt_lease(key)]
