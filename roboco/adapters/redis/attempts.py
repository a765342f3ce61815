"""Attempts on Redis: how often work was begun and never ended."""

import uuid
from typing import cast

import redis

from roboco.adapters.redis.keys import Keys
from roboco.adapters.redis.scripts import answering

KEPT = 86_400
"""Seconds after which a count is forgotten to which nothing was added."""


class RedisAttempts:
    """For each key a set with an entry for each begin, and a lease of so many seconds for who is at it."""

    def __init__(self, client: redis.Redis, keys: Keys, lease: float) -> None:
        self._client = client
        self._keys = keys
        self._lease_ms = int(lease * 1000)

    def begin(self, key: str) -> int | None:
        """Note that the work begins: how often it was begun before and not ended; None while somebody is at it."""
        token = uuid.uuid4().hex
        with answering():
            holder = self._client.set(self._keys.at_work(key), token, nx=True, px=self._lease_ms, get=True)
            if holder not in (None, token):
                return None
        return self.count(key)

    def renew(self, key: str) -> bool:
        """Be at it for one more lease."""
        with answering():
            return bool(self._client.pexpire(self._keys.at_work(key), self._lease_ms))

    def count(self, key: str) -> int:
        """Note that the work begins, whoever else may be at it: how often it was begun before and not ended."""
        with answering(), self._client.pipeline(transaction=False) as pipe:
            pipe.sadd(self._keys.begun(key), uuid.uuid4().hex)
            pipe.expire(self._keys.begun(key), KEPT)
            pipe.scard(self._keys.begun(key))
            *_, begun = cast(list[int], pipe.execute())
        return begun - 1

    def end(self, key: str) -> None:
        """The work has ended, well or with an error: what was counted is forgotten."""
        with answering(), self._client.pipeline(transaction=False) as pipe:
            pipe.delete(self._keys.begun(key))
            pipe.delete(self._keys.at_work(key))
            pipe.execute()
