"""State machines that compare three drivers: memory, Redis, and Redis with all commands sent twice."""

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import redis
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from roboco.redis.keys import Keys
from tests.contract.machine_settings import MACHINE_SETTINGS, CommandMachine
from tests.contract.redis.double_sending import DoubleSendingRedis
from tests.contract.redis.driver import Driver, assert_same
from tests.contract.redis.key_aging import age_keys
from tests.contract.redis.task_in_memory import TaskInMemory
from tests.contract.redis.task_on_redis import TaskOnRedis
from tests.support.memory_ports.clock import ManualClock


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


class _RunningClock(ManualClock):
    """A manual clock that runs as well: if a test is slow, a lease expires in all implementations."""

    def __init__(self) -> None:
        super().__init__()
        self._began, self._passed = time.monotonic(), 0

    def now(self) -> float:
        passed = int((time.monotonic() - self._began) * 1000)
        self._ms += passed - self._passed
        self._passed = passed
        return super().now()


def make_drivers(clients: Clients) -> list[Driver]:
    """Return drivers of empty implementations. The server runs on this machine, so all have one clock."""
    memory = TaskInMemory(_RunningClock())
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


class PortsMachine(CommandMachine):
    """Random commands on every implementation. After each, the results are compared, and what `observe` returns."""

    def __init__(self, clients: Clients) -> None:
        super().__init__()
        self.drivers = make_drivers(clients)
        self.command_count = 0

    def teardown(self) -> None:
        """Remove all data of the servers."""
        for driver in self.drivers:
            driver.wipe()

    def observe(self, driver: Driver) -> object:
        """Return the state that is compared."""
        raise NotImplementedError

    def run(self, name: str, *arguments: Any) -> None:
        """Run this command, and compare."""
        self.command_count += 1
        act = self.commands[name].act
        assert_same(self.drivers, f"{name} {arguments}", lambda driver: act(driver, *arguments))
        assert_same(self.drivers, f"{name} {arguments}, then its state", self.observe)


def run_machine(machine: type[PortsMachine], url: str, examples: int, steps: int) -> None:
    """Run the machine on this Redis."""
    with connected(url) as clients:
        create: Any = partial(machine, clients)
        profile = settings(MACHINE_SETTINGS, max_examples=examples, stateful_step_count=steps)
        run_state_machine_as_test(create, settings=profile)
