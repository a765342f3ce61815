"""A task on the Redis adapters."""

import time
from collections.abc import Iterable
from typing import Any

import redis

from roboco.domain.team.model_profile import ModelProfile
from roboco.ports.rate_limits import Ticket
from roboco.redis.dead_letters import RedisDeadLetters
from roboco.redis.keys import Keys
from roboco.redis.leases import RedisLeaseRenewals, RedisLeases
from roboco.redis.logs import RedisEventLogs
from roboco.redis.rate_limits import Buckets, RedisRateLimiter
from roboco.redis.schedule import RedisSchedule
from roboco.redis.scripts import Scripts
from roboco.redis.task_store import RedisTaskStore, StoredSteps
from roboco.redis.worker_registry import RedisWorkerRegistry
from tests.contract.redis.task_under_test import (
    LONG_LEASE,
    OPERATOR_LIMITS,
    RATE_SLOT,
    RATE_WINDOW,
    SHORT_LEASE,
    TaskUnderTest,
)
from tests.contract.samples import TASK
from tests.support.stack import until


class TaskOnRedis(TaskUnderTest):
    """A task on the Redis adapters, all of whose keys begin with the prefix of `keys`."""

    def __init__(self, client: redis.Redis, keys: Keys) -> None:
        super().__init__()
        self.client = client
        self.keys = keys
        scripts = Scripts(client)
        large_steps = StoredSteps(lambda _, start: self.steps[start:])
        self.store = RedisTaskStore(scripts, keys, large_steps)
        self.leases = RedisLeases(scripts, keys, LONG_LEASE, large_steps)
        self.short_lease = RedisLeases(scripts, keys, SHORT_LEASE, large_steps)
        self.renewals = RedisLeaseRenewals(scripts, keys, LONG_LEASE)
        self.schedule: RedisSchedule = RedisSchedule(scripts, keys)
        self.logs: RedisEventLogs = RedisEventLogs(client, keys)
        self.dead_letters = RedisDeadLetters(lambda: client, keys)
        self.rates = RedisRateLimiter(scripts, keys, OPERATOR_LIMITS, LONG_LEASE, slot=RATE_SLOT)
        self.short_window_rates = RedisRateLimiter(scripts, keys, OPERATOR_LIMITS, RATE_WINDOW, slot=RATE_SLOT)

    def pass_time(self, seconds: float) -> None:
        end = time.monotonic() + seconds + 0.005
        until(lambda: time.monotonic() > end, 5, f"{seconds:g} s have passed")

    def registry(self, node_name: str, lifetime: float = LONG_LEASE) -> RedisWorkerRegistry:
        return RedisWorkerRegistry(Scripts(self.client), self.keys, node_name, lifetime)

    def wipe(self) -> None:
        for key in self.names():
            self.client.delete(key)

    def chunks(self) -> Iterable[str]:
        return [message for _, message in self.logs.entries(self.keys.content(TASK), 0)]

    def tickets(self, profile: ModelProfile, ticket: Ticket) -> set[str]:
        """Return the tickets that Redis holds for the same limits as this ticket."""
        client: Any = self.client
        buckets = Buckets(self.keys, OPERATOR_LIMITS)
        waiting = {
            name
            for bucket in buckets.of(profile, ticket.tenant, ticket.team)
            for key in (bucket.keys[1], bucket.keys[4])
            for name in client.zrange(key, 0, -1)
        }
        start = buckets.admission_key(profile, ticket).removesuffix(ticket.name)
        return waiting | {name.removeprefix(start) for name in client.scan_iter(f"{start}*", count=1000)}

    def names(self) -> list[str]:
        """Return the keys of this test."""
        return sorted(self.client.scan_iter(f"{self.keys.prefix}:*", count=1000))
