"""Limits of callers, on Redis and on a cluster."""

import time
from dataclasses import dataclass

import pytest
import redis

from roboco.domain.access_key import CallerLimits
from roboco.domain.team.model_profile import ModelLimits
from roboco.domain.usage import DayUsage
from roboco.redis.caller_limits import Accepted, Account, LimitReached, RedisCallerCounts, RedisOpenTasks
from roboco.redis.keys import Keys
from roboco.redis.rate_limits import RedisRateLimiter
from roboco.redis.scripts import Scripts

pytestmark = pytest.mark.redis
HUGE = 10**9
NO_LIMITS = ModelLimits(())
USED = DayUsage(day="2026-01-31", tokens=1, cost_billionths=1)


@dataclass(frozen=True)
class Limits:
    """Counts of requests and streams, and open tasks."""

    counts: RedisCallerCounts
    tasks: RedisOpenTasks


@pytest.fixture(params=["redis", "cluster"])
def limits(request: pytest.FixtureRequest, prefix: str) -> Limits:
    """Return empty counts."""
    client: redis.Redis = request.getfixturevalue("client" if request.param == "redis" else "cluster_client")
    scripts, keys = Scripts(client), Keys(prefix)
    return Limits(RedisCallerCounts(scripts, keys), RedisOpenTasks(scripts, keys))


def account(tenant: str = "acme", by: str = "key:one", shared: CallerLimits | None = None, **own: float) -> Account:
    """Return an account with these limits."""
    return Account(tenant, by, CallerLimits.model_validate(own), shared or CallerLimits())


def test_requests_are_refused_beyond_the_limit_and_accepted_after_the_named_time(limits: Limits) -> None:
    caller = account(requests_per_minute=300)
    remaining = [limits.counts.admit(caller, 0) for _ in range(300)]
    assert isinstance(remaining[0], Accepted)
    assert remaining[0].remaining == 299
    refused = limits.counts.admit(caller, 0)
    while isinstance(refused, Accepted):  # time has passed meanwhile
        refused = limits.counts.admit(caller, 0)
    assert refused.limit == "requests_per_minute"
    assert 0 < refused.seconds <= 0.21
    time.sleep(refused.seconds + 0.01)
    assert isinstance(limits.counts.admit(caller, 0), Accepted)


def test_callers_are_counted_apart_and_their_tenant_together(limits: Limits) -> None:
    shared = CallerLimits(requests_per_minute=3)
    one, two = (
        account(shared=shared, requests_per_minute=2),
        account(by="key:two", shared=shared, requests_per_minute=2),
    )
    assert isinstance(limits.counts.admit(one, 0), Accepted)
    assert isinstance(limits.counts.admit(one, 0), Accepted)
    assert limits.counts.admit(one, 0) != Accepted()
    assert isinstance(limits.counts.admit(two, 0), Accepted)
    refused = limits.counts.admit(two, 0)
    assert isinstance(refused, LimitReached)
    assert refused.limit == "tenant_requests_per_minute"
    other = account("other", shared=shared)
    assert isinstance(limits.counts.admit(other, 0), Accepted)


def test_bytes_that_were_not_announced_are_charged_up_to_a_bound(limits: Limits) -> None:
    caller = account(bytes_per_minute=1000)
    limits.counts.charge(caller, 900)
    assert isinstance(limits.counts.admit(caller, 0), Accepted)
    limits.counts.charge(caller, HUGE)
    refused = limits.counts.admit(caller, 0)
    assert isinstance(refused, LimitReached)
    assert 500 < refused.seconds <= 540


def test_streams_of_all_processes_count_and_closed_ones_do_not(limits: Limits) -> None:
    caller = account(open_streams=3)
    assert limits.counts.hold_streams(caller, "one", 2, 2) is None
    assert limits.counts.hold_streams(caller, "two", 1, 1) is None
    refused = limits.counts.hold_streams(caller, "two", 2, 2)
    assert refused is not None
    assert refused.limit == "open_streams"
    limits.counts.renew_streams(caller, "one", 1, 1)
    assert limits.counts.hold_streams(caller, "two", 2, 2) is None
    limits.counts.renew_streams(caller, "one", 0, 0)
    assert limits.counts.hold_streams(caller, "two", 3, 3) is None


def test_open_tasks_are_limited_and_a_repetition_is_not_refused(limits: Limits) -> None:
    caller = account(open_tasks=2)
    assert limits.tasks.add(caller, "t1") is None
    assert limits.tasks.add(caller, "t2") is None
    assert limits.tasks.add(caller, "t2") is None
    refused = limits.tasks.add(caller, "t3")
    assert refused is not None
    assert refused.limit == "open_tasks"
    time.sleep(0.01)
    limits.tasks.mark_checked(caller, ["t1", "unknown"])
    assert [task_id for task_id, _ in limits.tasks.least_recently_checked(caller, 1)] == ["t2"]
    limits.tasks.remove(caller, ["t2"])
    assert limits.tasks.add(caller, "t3") is None
    assert {task_id for task_id, _ in limits.tasks.least_recently_checked(caller, 10)} == {"t1", "t3"}


def test_bytes_of_open_tasks_are_limited(limits: Limits) -> None:
    caller = account("acme", open_bytes=100)
    assert limits.tasks.add(caller, "large", 1000) is None
    assert limits.tasks.add(caller, "large", 1000) is None
    refused = limits.tasks.add(caller, "t1", 1)
    assert refused is not None
    assert refused.limit == "open_bytes"
    limits.tasks.remove(caller, ["large", "unknown"])
    assert limits.tasks.add(caller, "t1", 60) is None
    assert limits.tasks.add(caller, "t2", 40) is None
    assert limits.tasks.add(caller, "t2", 40) is None
    assert limits.tasks.add(caller, "t3", 1) is not None
    limits.tasks.remove(caller, ["t1"])
    assert limits.tasks.add(caller, "t3", 60) is None
    shared = account("acme", by="key:two", shared=CallerLimits(open_bytes=100))
    assert limits.tasks.add(shared, "t4", 100) is None
    refused = limits.tasks.add(account("acme", by="key:three", shared=CallerLimits(open_bytes=100)), "t5", 1)
    assert refused is not None
    assert refused.limit == "tenant_open_bytes"


def test_every_key_expires_and_identities_cannot_leave_their_slot(client: redis.Redis, prefix: str) -> None:
    scripts, keys = Scripts(client), Keys(prefix)
    most = CallerLimits(requests_per_minute=5, bytes_per_minute=5, open_streams=5, open_tasks=5)
    caller = Account("acme", "oidc:{a}}:\n*", most, most)
    RedisCallerCounts(scripts, keys).admit(caller, 3)
    RedisCallerCounts(scripts, keys).hold_streams(caller, "p", 1, 1)
    RedisOpenTasks(scripts, keys).add(caller, "acme:t1")
    RedisRateLimiter(scripts, keys, NO_LIMITS).count_day("acme:t1", caller.by, 1, USED)
    names = list(client.scan_iter(f"{prefix}:*"))
    assert len(names) == 13
    for name in names:
        assert str(name).startswith(f"{prefix}:{{gate:acme}}:")
        assert 0 < client.pttl(str(name)) <= 31 * 86_400_000
