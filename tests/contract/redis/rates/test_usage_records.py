"""Records of used tokens: late, repeated, in any order, or lost."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from roboco.domain.team.model_profile import ModelLimits, ModelProfile
from roboco.redis.rate_limits import Buckets, RedisRateLimiter
from roboco.redis.scripts import Scripts
from tests.contract.redis.rates.test_rate_limit_usage import slots_of
from tests.contract.redis.rates.test_rate_limits import make_ticket
from tests.contract.redis.task_on_redis import TaskOnRedis
from tests.contract.redis.task_under_test import wait_of

HIGH_LIMITS = ModelProfile(model="m", requests_per_minute=10_000, tokens_per_minute=10**6)
OF_OPERATOR = ModelProfile(model="both", tokens_per_minute=10**6)
"""A profile with a limit of its team, whose model has one of the operator, too."""

LIMITS = ModelLimits(("both=10000/1000000",))


def usage_of(task: TaskOnRedis, profile: ModelProfile) -> list[dict[str, str]]:
    """Return the usage of each limit of a request with this profile."""
    client: Any = task.client
    return [client.hgetall(one.keys[0]) for one in Buckets(task.keys, LIMITS).of(profile, "", "desk")]


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.integers(0, 300), st.floats(0, 3)), min_size=1, max_size=12),
    st.lists(st.integers(0, 11), max_size=20),
)
def test_records_count_once_in_any_order(
    redis_task: TaskOnRedis, requests: list[tuple[int, float]], recorded: list[int]
) -> None:
    """Some are lost, some come twice, all of them late. The tokens of a request without a record stay reserved."""
    redis_task.wipe()
    limiter = RedisRateLimiter(Scripts(redis_task.client), redis_task.keys, LIMITS)
    expected = dict.fromkeys(range(len(requests)), 100)
    for number in expected:
        assert wait_of(limiter, OF_OPERATOR, make_ticket(f"t{number}"), 100) == 0
    for number in (index for index in recorded if index in expected):
        used, seconds_ago = requests[number]
        limiter.record_usage(OF_OPERATOR, make_ticket(f"t{number}"), used, seconds_ago)
        expected[number] = used
    for usage in usage_of(redis_task, OF_OPERATOR):
        slots = slots_of(usage)
        assert int(usage["requests"]) == len(requests) == sum(n for slot, n in slots.items() if slot.endswith("r"))
        assert int(usage["tokens"]) == sum(expected.values())
        assert int(usage["tokens"]) == sum(n for slot, n in slots.items() if slot.endswith("t"))


@pytest.mark.parametrize("lost", ["admission", "usage"])
def test_a_record_whose_data_redis_has_lost_changes_nothing(redis_task: TaskOnRedis, lost: str) -> None:
    """As after a failover to a replica that was late."""
    client: Any = redis_task.client
    limiter = RedisRateLimiter(Scripts(client), redis_task.keys, LIMITS)
    assert wait_of(limiter, HIGH_LIMITS, make_ticket("a"), 100) == 0
    (name,) = (name for name in redis_task.names() if (":admission:" in name) == (lost == "admission"))
    client.delete(name)
    limiter.record_usage(HIGH_LIMITS, make_ticket("a"), 30)
    (usage,) = usage_of(redis_task, HIGH_LIMITS)
    assert usage.get("tokens") == ("100" if lost == "admission" else None)
    assert len(redis_task.names()) == (lost == "admission"), "no key without a time to live"
