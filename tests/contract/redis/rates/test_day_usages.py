"""The usage of tenants and callers by day: the newest usage of each task counts."""

from typing import Any
from uuid import uuid4

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from roboco.domain.day_budget import DayBudget
from roboco.domain.team.model_profile import ModelLimits
from roboco.domain.usage import DayUsage
from roboco.ports.rate_limits import RateLimiter
from roboco.redis.keys import Keys
from roboco.redis.rate_limits import DAY_TTL, RedisRateLimiter
from roboco.redis.scripts import Scripts
from tests.support.mcp_servers import wait_until
from tests.support.memory_ports.clock import ManualClock
from tests.support.memory_ports.rates import MemoryRates
from tests.support.memory_ports.server import MemoryServer

DAY, NEXT = "2026-01-31", "2026-02-01"


def used(tokens: int, billionths: int, day: str = DAY) -> DayUsage:
    """Return the usage of a day."""
    return DayUsage(day=day, tokens=tokens, cost_billionths=billionths)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=["memory", "redis", "cluster"])
def usages(request: pytest.FixtureRequest, prefix: str, clock: ManualClock) -> RateLimiter:
    """Return empty sums."""
    if request.param == "memory":
        return MemoryRates(MemoryServer(), clock)
    client: Any = request.getfixturevalue("client" if request.param == "redis" else "cluster_client")
    return RedisRateLimiter(Scripts(client), Keys(prefix), ModelLimits(()))


def test_the_newest_usage_of_each_task_counts(usages: RateLimiter) -> None:
    for _ in range(2):
        usages.count_day("acme:t1", "key:one", 2, used(10, 5))
        usages.count_day("acme:t1", "key:one", 4, used(17, 10**12))
        usages.count_day("acme:t1", "key:one", 3, used(12, 6))  # late
    usages.count_day("acme:t2", "key:one", 2, used(10, 5))
    usages.count_day("acme:t3", "key:two", 2, used(1, 1))
    usages.count_day("acme:t4", None, 2, used(2, 2))
    usages.count_day("acme:t1", "key:one", 5, used(1, 0, NEXT))
    usages.count_day("other:t1", "key:one", 2, used(10, 5))
    assert usages.spent("acme", DAY) == used(30, 10**12 + 8)
    assert usages.spent("acme", DAY, "key:one") == used(27, 10**12 + 5)
    assert usages.spent("acme", DAY, "key:two") == used(1, 1)
    assert usages.spent("acme", NEXT) == usages.spent("acme", NEXT, "key:one") == used(1, 0, NEXT)
    assert usages.spent("other", DAY) == used(10, 5)
    assert usages.spent("acme", "2026-03-01") == used(0, 0, "2026-03-01")


@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(counts=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 9)), max_size=12))
def test_whatever_order_counts_arrive_in_the_newest_of_each_task_remains(
    usages: RateLimiter, counts: list[tuple[int, int]]
) -> None:
    tenant = f"t{uuid4().hex[:20]}"
    for task, steps in counts:
        usages.count_day(f"{tenant}:t{task}", "key:one", steps, used(steps, 2**steps))
    newest = {task: max(steps for other, steps in counts if other == task) for task, _ in counts}
    expected = used(sum(newest.values()), sum(2**steps for steps in newest.values()))
    assert usages.spent(tenant, DAY) == usages.spent(tenant, DAY, "key:one") == expected


def test_the_keys_expire(client: redis.Redis, prefix: str) -> None:
    RedisRateLimiter(Scripts(client), Keys(prefix), ModelLimits(())).count_day("acme:t1", "key:one", 1, used(1, 2))
    lifetimes = [client.ttl(key) for key in client.scan_iter(f"{prefix}:*")]
    assert len(lifetimes) == 3
    assert all(DAY_TTL - 60 < lifetime <= DAY_TTL for lifetime in lifetimes)


BUDGET = DayBudget(tokens=100)


def reserve(usages: RateLimiter, task: str, tokens: int, budget: DayBudget | None = BUDGET) -> DayUsage | None:
    return usages.reserve_day(f"acme:{task}", used(tokens, tokens), budget)


def test_replies_that_run_together_stay_within_the_budget(usages: RateLimiter) -> None:
    usages.count_day("acme:t0", None, 1, used(40, 0))
    assert [reserve(usages, f"t{n}", 20) for n in range(1, 6)] == [None, None, None, used(60, 60), used(60, 60)]
    usages.count_day("acme:t1", None, 1, used(5, 0))  # its reply has used less
    assert [reserve(usages, f"t{n}", 15) for n in (4, 5)] == [None, used(55, 55)]
    assert usages.reserve_day("other:t1", used(90, 0), BUDGET) is None
    assert reserve(usages, "t5", 90, DayBudget(cost=1.0)) is None
    assert usages.spent("acme", DAY) == used(45, 0)


def test_a_task_has_one_reservation(usages: RateLimiter) -> None:
    assert [reserve(usages, task, 50) for task in ("t1", "t2", "t1", "t1")] == [None] * 4
    assert reserve(usages, "t3", 1) == used(100, 100)
    assert reserve(usages, "t1", 0, None) is None
    assert reserve(usages, "t1", 0, None) is None
    assert reserve(usages, "t3", 50) is None


def test_a_late_count_ends_no_reservation(usages: RateLimiter) -> None:
    usages.count_day("acme:t1", None, 3, used(0, 0))
    assert reserve(usages, "t1", 99) is None
    for steps in (2, 3):
        usages.count_day("acme:t1", None, steps, used(0, 0))
        assert reserve(usages, "t2", 10) == used(99, 99)
    usages.count_day("acme:t1", None, 4, used(0, 0))
    assert reserve(usages, "t2", 10) is None


def test_one_reply_may_exceed_the_budget(usages: RateLimiter) -> None:
    assert reserve(usages, "t1", 1000) is None
    assert reserve(usages, "t2", 1) == used(1000, 1000)
    assert usages.reserve_day("acme:t3", used(1, 10**9), DayBudget(cost=1.0)) == used(1000, 1000)


def ask(usages: RateLimiter, task: str, tokens: int, steps: int = 1, by: str = "key:one") -> DayUsage | None:
    return usages.reserve_for_caller(f"acme:{task}", by, steps, used(tokens, tokens))


def test_replies_of_a_caller_that_run_together_stay_within_its_limits(usages: RateLimiter) -> None:
    assert [ask(usages, f"t{n}", 90) for n in range(3)] == [None] * 3  # no limits are noted
    usages.note_limits("acme", "key:one", DayBudget(tokens=100))
    usages.count_day("acme:t0", "key:one", 1, used(40, 0))
    assert [ask(usages, f"t{n}", 20) for n in range(1, 6)] == [None, None, None, used(60, 60), used(60, 60)]
    assert ask(usages, "t9", 90, by="key:two") is ask(usages, "t1", 0) is ask(usages, "t4", 20) is None
    usages.count_day("acme:t2", "key:one", 1, used(0, 0))  # late: after the step before the turn
    assert ask(usages, "t5", 1) == used(60, 60)
    usages.count_day("acme:t2", "key:one", 2, used(60, 0))
    assert ask(usages, "t3", 0) is ask(usages, "t4", 0) is None
    assert ask(usages, "t3", 1) == used(0, 0)  # used up
    usages.note_limits("acme", "key:one", DayBudget(cost=1.0))
    assert [ask(usages, task, 10**9) for task in ("t3", "t4")] == [None, used(10**9, 10**9)]
    assert usages.reserve_for_caller("acme:t3", "key:one", 1, used(5, 0, NEXT)) is None


def test_a_reservation_ends_after_its_time(
    usages: RateLimiter, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("roboco.redis.rate_limits", "tests.support.memory_ports.rates"):
        monkeypatch.setattr(f"{module}.RESERVATION_SECONDS", 0.001)
    assert reserve(usages, "t1", 100) is None
    monkeypatch.undo()
    clock.move(1)
    wait_until(lambda: reserve(usages, "t2", 100) is None)
    assert reserve(usages, "t1", 1) == used(100, 100)
