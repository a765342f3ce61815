"""Counts of attempts on Redis, which find work that ends its workers."""

import uuid
from typing import cast

import redis

from roboco.adapters.redis.keys import Keys
from roboco.adapters.redis.scripts import translating_errors

COUNT_TTL = 86_400
"""Seconds after the last attempt for which Redis keeps a count."""


class RedisAttempts:
    """For each key, a set with an entry for each attempt that has not ended, and the lease of the running attempt."""

    def __init__(self, client: redis.Redis, keys: Keys, lease: float) -> None:
        self._client = client
        self._keys = keys
        self._lease_ms = int(lease * 1000)

    def start(self, key: str) -> int | None:
        """Start an attempt. Return the number of earlier ones that have not ended, or None if another one is live."""
        token = uuid.uuid4().hex
        with translating_errors():
            holder = self._client.set(self._keys.attempt_lease(key), token, nx=True, px=self._lease_ms, get=True)
            if holder not in (None, token):
                return None
        return self.start_without_lease(key)

    def start_without_lease(self, key: str) -> int:
        """Start an attempt without a lease. Return the number of earlier attempts that have not ended."""
        with translating_errors(), self._client.pipeline(transaction=False) as pipe:
            pipe.sadd(self._keys.attempts(key), uuid.uuid4().hex)
            pipe.expire(self._keys.attempts(key), COUNT_TTL)
            pipe.scard(self._keys.attempts(key))
            *_, started = cast(list[int], pipe.execute())
        return started - 1

    def finish(self, key: str) -> None:
        """Release the lease and reset the count: the work has finished."""
        with translating_errors(), self._client.pipeline(transaction=False) as pipe:
            pipe.delete(self._keys.attempts(key))
            pipe.delete(self._keys.attempt_lease(key))
            pipe.execute()
