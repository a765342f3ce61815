"""The sides that a state machine compares: memory, Redis, and Redis with all commands sent twice."""

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import redis

from roboco.adapters.redis.keys import Keys
from tests.contract.passing_time import pass_time
from tests.contract.sent_twice import SentTwice
from tests.contract.side import Side
from tests.contract.task_in_memory import TaskInMemory
from tests.contract.task_on_redis import TaskOnRedis


@dataclass(frozen=True)
class Clients:
    """Clients of one Redis server."""

    plain: redis.Redis
    twice: SentTwice


@contextmanager
def connected(url: str) -> Iterator[Clients]:
    """Connect until the block ends."""
    plain = redis.Redis.from_url(url, decode_responses=True)
    with plain, SentTwice.from_url(url, decode_responses=True) as twice:
        yield Clients(plain, twice)


def sides_of(clients: Clients) -> list[Side]:
    """Sides on which nothing is stored yet. The server runs on this machine, so both have one clock."""
    memory = TaskInMemory()
    return [
        Side("memory", memory, memory, memory.clock.now),
        _on_redis("redis", clients.plain, clients.plain),
        _on_redis("redis, all sent twice", clients.twice, clients.plain),
    ]


class _OnRedis(TaskOnRedis):
    """Its time passes at once."""

    def outlive(self, seconds: float) -> None:
        """Make all that it has stored older."""
        pass_time(self.client, self.names(), seconds)


def _on_redis(name: str, client: redis.Redis, reader: redis.Redis) -> Side:
    keys = Keys(f"test-{uuid.uuid4().hex[:12]}")
    return Side(name, TaskOnRedis(client, keys), _OnRedis(reader, keys), time.time)
