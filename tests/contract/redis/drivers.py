"""The drivers that a state machine compares: memory, Redis, and Redis with all commands sent twice."""

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import redis

from roboco.redis.keys import Keys
from tests.contract.redis.double_sending import DoubleSendingRedis
from tests.contract.redis.driver import Driver
from tests.contract.redis.key_aging import age_keys
from tests.contract.redis.task_in_memory import TaskInMemory
from tests.contract.redis.task_on_redis import TaskOnRedis


@dataclass(frozen=True)
class Clients:
    """Clients of one Redis server."""

    plain: redis.Redis
    double_sending: DoubleSendingRedis


@contextmanager
def connected(url: str) -> Iterator[Clients]:
    """Yield connected clients. Close them when the block ends."""
    plain = redis.Redis.from_url(url, decode_responses=True)
    with plain, DoubleSendingRedis.from_url(url, decode_responses=True) as double_sending:
        yield Clients(plain, double_sending)


def make_drivers(clients: Clients) -> list[Driver]:
    """Return drivers of empty implementations. The server runs on this machine, so all have one clock."""
    memory = TaskInMemory()
    return [
        Driver("memory", memory, memory, memory.clock.now),
        _make_redis_driver("redis", clients.plain, clients.plain),
        _make_redis_driver("redis, all sent twice", clients.double_sending, clients.plain),
    ]


class _AgingTaskOnRedis(TaskOnRedis):
    """A task on Redis that ages its keys instead of waiting."""

    def pass_time(self, seconds: float) -> None:
        """Make all stored keys older by these seconds."""
        age_keys(self.client, self.names(), seconds)


def _make_redis_driver(name: str, client: redis.Redis, reader: redis.Redis) -> Driver:
    keys = Keys(f"test-{uuid.uuid4().hex[:12]}")
    return Driver(name, TaskOnRedis(client, keys), _AgingTaskOnRedis(reader, keys), time.time)
