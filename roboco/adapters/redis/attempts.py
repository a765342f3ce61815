"""Counts of attempts on Redis."""

import uuid
from typing import cast

import redis

from roboco.adapters.redis.keys import Keys
from roboco.adapters.redis.scripts import answering

KEPT = 86_400
"""Seconds after its last attempt for which a count is kept."""


class RedisAttempts:
    """For each key a set with an entry for each attempt that has not ended, and a lease of the running one."""

    def __init__(self, client: redis.Redis, keys: Keys, lease: float) -> None:
        self._client = client
        self._keys = keys
        self._lease_ms = int(lease * 1000)

    def begin(self, key: str) -> int | None:
        """Begin an attempt. Return how many earlier ones have not ended, or None while another one has the lease."""
        token = uuid.uuid4().hex
        with answering():
            holder = self._client.set(self._keys.at_work(key), token, nx=True, px=self._lease_ms, get=True)
            if holder not in (None, token):
                return None
        return self.count(key)

    def renew(self, key: str) -> bool:
        """Renew the lease. Return False if it has expired."""
        with answering():
            return bool(self._client.pexpire(self._keys.at_work(key), self._lease_ms))

    def count(self, key: str) -> int:
        """Begin an attempt without a lease. Return how many earlier attempts have not ended."""
        with answering(), self._client.pipeline(transaction=False) as pipe:
            pipe.sadd(self._keys.begun(key), uuid.uuid4().hex)
            pipe.expire(self._keys.begun(key), KEPT)
            pipe.scard(self._keys.begun(key))
            *_, begun = cast(list[int], pipe.execute())
        return begun - 1

    def end(self, key: str) -> None:
        """End the lease and reset the count."""
        with answering(), self._client.pipeline(transaction=False) as pipe:
            pipe.delete(self._keys.begun(key))
            pipe.delete(self._keys.at_work(key))
            pipe.execute()
