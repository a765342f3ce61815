"""A task on the Redis adapters."""

import time
from collections.abc import Iterable
from typing import Any

import redis

from roboco.adapters.redis.agenda import RedisAgenda, RedisInbox, RedisLogs
from roboco.adapters.redis.attempts import RedisAttempts
from roboco.adapters.redis.board import RedisBoard
from roboco.adapters.redis.dead import RedisDeadLetters
from roboco.adapters.redis.keys import Keys
from roboco.adapters.redis.leases import RedisCalls, RedisTurns
from roboco.adapters.redis.rates import RedisRates, server_of
from roboco.adapters.redis.scripts import Scripts
from roboco.domain.model_profile import ModelProfile
from tests.contract.a_task import LONG, SHORT, WINDOW, ATask
from tests.contract.samples import TASK
from tests.stack import until


class TaskOnRedis(ATask):
    """All its keys begin with the prefix of `keys`."""

    def __init__(self, client: redis.Redis, keys: Keys) -> None:
        super().__init__()
        self.client = client
        self.keys = keys
        scripts = Scripts(client)
        self.board = RedisBoard(scripts, keys)
        self.turns = RedisTurns(scripts, keys, LONG)
        self.calls = RedisCalls(scripts, keys, LONG)
        self.brief_turns = RedisTurns(scripts, keys, SHORT)
        self.brief_calls = RedisCalls(scripts, keys, SHORT)
        self.agenda: RedisAgenda = RedisAgenda(scripts, keys)
        self.inbox = RedisInbox(scripts, keys)
        self.logs: RedisLogs = RedisLogs(client, keys)
        self.attempts = RedisAttempts(client, keys, LONG)
        self.brief_attempts = RedisAttempts(client, keys, SHORT)
        self.dead = RedisDeadLetters(lambda: client, keys)
        self.rates = RedisRates(scripts, keys, LONG)
        self.brief_rates = RedisRates(scripts, keys, WINDOW)

    def outlive(self, seconds: float) -> None:
        """Wait for so long, and a little longer."""
        end = time.monotonic() + seconds + 0.005
        until(lambda: time.monotonic() > end, 5, f"{seconds:g} s have passed")

    def wipe(self) -> None:
        """Remove all keys of this test."""
        for key in self.names():
            self.client.delete(key)

    def chunks(self) -> Iterable[str]:
        """The messages of the content log."""
        return [message for _, message in self.logs.entries(self.keys.content(TASK), 0)]

    def tickets(self, profile: ModelProfile) -> set[str]:
        """The tickets of requests that the sorted set or the hash remembers for the profile's model."""
        server = server_of(profile)
        client: Any = self.client
        ordered, counted = client.zrange(self.keys.asked(server), 0, -1), client.hkeys(self.keys.asking(server))
        return {*ordered, *(field.removesuffix(":made") for field in counted)}

    def names(self) -> list[str]:
        """The keys of this test."""
        return sorted(self.client.scan_iter(f"{self.keys.prefix}:*", count=1000))
