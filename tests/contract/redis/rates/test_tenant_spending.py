"""The usage of tenants by day: the newest usage of each task counts, on Redis, in a cluster and in memory."""

from typing import Any
from uuid import uuid4

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from roboco.adapters.redis.keys import Keys
from roboco.adapters.redis.scripts import Scripts
from roboco.adapters.redis.tenant_spending import TTL, RedisTenantSpending
from roboco.ports.tenant_spending import StateUsage, TenantSpending
from tests.support.memory_ports.caller_limits import MemoryTenantSpending
from tests.support.memory_ports.server import MemoryServer

DAY, NEXT = "2026-01-31", "2026-02-01"


@pytest.fixture(params=["memory", "redis", "cluster"])
def spending(request: pytest.FixtureRequest, prefix: str) -> TenantSpending:
    """Return empty sums."""
    if request.param == "memory":
        return MemoryTenantSpending(MemoryServer())
    client: Any = request.getfixturevalue("client" if request.param == "redis" else "cluster_client")
    return RedisTenantSpending(Scripts(client), Keys(prefix))


def test_the_newest_usage_of_each_task_counts(spending: TenantSpending) -> None:
    for _ in range(2):
        spending.count("acme:t1", DAY, StateUsage(2, 10, 5))
        spending.count("acme:t1", DAY, StateUsage(4, 17, 10**12))
        spending.count("acme:t1", DAY, StateUsage(3, 12, 6))  # late
    spending.count("acme:t2", DAY, StateUsage(2, 10, 5))
    spending.count("acme:t1", NEXT, StateUsage(5, 1, 0))
    spending.count("other:t1", DAY, StateUsage(2, 10, 5))
    assert spending.spent("acme", DAY) == (27, 10**12 + 5)
    assert spending.spent("acme", NEXT) == (1, 0)
    assert spending.spent("other", DAY) == (10, 5)
    assert spending.spent("acme", "2026-03-01") == (0, 0)


@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(counts=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 9)), max_size=12))
def test_whatever_order_counts_arrive_in_the_newest_of_each_task_remains(
    spending: TenantSpending, counts: list[tuple[int, int]]
) -> None:
    tenant = f"t{uuid4().hex[:20]}"
    for task, steps in counts:
        spending.count(f"{tenant}:t{task}", DAY, StateUsage(steps, steps, 2**steps))
    newest = {task: max(steps for other, steps in counts if other == task) for task, _ in counts}
    assert spending.spent(tenant, DAY) == (sum(newest.values()), sum(2**steps for steps in newest.values()))


def test_a_sum_that_would_overflow_stops(client: redis.Redis, prefix: str) -> None:
    spending = RedisTenantSpending(Scripts(client), Keys(prefix))
    for steps in range(3):
        spending.count("acme:t1", DAY, StateUsage(steps, steps, 9 * 10**18))
        spending.count("acme:t2", DAY, StateUsage(steps, steps, 9 * 10**18))
    assert spending.spent("acme", DAY) == (4, 9 * 10**15)


def test_the_keys_expire(client: redis.Redis, prefix: str) -> None:
    RedisTenantSpending(Scripts(client), Keys(prefix)).count("acme:t1", DAY, StateUsage(1, 1, 2))
    lifetimes = [client.ttl(key) for key in client.scan_iter(f"{prefix}:*")]
    assert len(lifetimes) == 2
    assert all(TTL - 60 < lifetime <= TTL for lifetime in lifetimes)
