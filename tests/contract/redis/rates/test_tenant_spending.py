"""The usage of tenants by day: each step counts once, on Redis, in a cluster and in memory."""

from typing import Any
from uuid import uuid4

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from roboco.adapters.redis.keys import Keys
from roboco.adapters.redis.scripts import Scripts
from roboco.adapters.redis.tenant_spending import BATCH, TTL, RedisTenantSpending
from roboco.ports.tenant_spending import StepSpending, TenantSpending
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


def test_each_step_counts_once(spending: TenantSpending) -> None:
    first, second = StepSpending(1, 10, 5), StepSpending(3, 7, 10**12)
    for _ in range(2):
        spending.count("acme:t1", DAY, [first])
        spending.count("acme:t1", DAY, [first, second])
    spending.count("acme:t1", DAY, [first])
    spending.count("acme:t2", DAY, [first])
    spending.count("acme:t1", NEXT, [StepSpending(4, 1, 0)])
    spending.count("other:t1", DAY, [first])
    assert spending.spent("acme", DAY) == (27, 10**12 + 10)
    assert spending.spent("acme", NEXT) == (1, 0)
    assert spending.spent("other", DAY) == (10, 5)
    assert spending.spent("acme", "2026-03-01") == (0, 0)


@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=6))
def test_repeated_parts_of_a_history_count_once(spending: TenantSpending, cuts: list[tuple[int, int]]) -> None:
    tenant, steps = f"t{uuid4().hex[:20]}", [StepSpending(seq, seq + 1, 2**seq) for seq in range(10)]
    done = 0
    for start, end in cuts:
        begin = min(start, done)  # a step is never counted before those before it
        spending.count(f"{tenant}:x", DAY, steps[begin:end])
        done = max(done, end) if begin <= end else done
    assert spending.spent(tenant, DAY) == (sum(range(1, done + 1)), 2**done - 1)


def test_a_sum_that_would_overflow_stops_and_each_step_still_counts_once(client: redis.Redis, prefix: str) -> None:
    spending = RedisTenantSpending(Scripts(client), Keys(prefix))
    for seq in range(3):
        spending.count("acme:t1", DAY, [StepSpending(seq, 1, 9 * 10**18)])
    spending.count("acme:t1", DAY, [StepSpending(2, 1, 9 * 10**18)])
    assert spending.spent("acme", DAY) == (3, 9 * 10**15)


def test_the_keys_expire_and_many_steps_are_several_scripts(client: redis.Redis, prefix: str) -> None:
    spending = RedisTenantSpending(Scripts(client), Keys(prefix))
    spending.count("acme:t1", DAY, [StepSpending(seq, 1, 2) for seq in range(2 * BATCH + 1)])
    assert spending.spent("acme", DAY) == (2 * BATCH + 1, 4 * BATCH + 2)
    lifetimes = [client.ttl(key) for key in client.scan_iter(f"{prefix}:*")]
    assert len(lifetimes) == 2
    assert all(TTL - 60 < lifetime <= TTL for lifetime in lifetimes)
