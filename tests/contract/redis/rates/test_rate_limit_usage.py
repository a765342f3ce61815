"""Usage of rate limits on Redis: the sums of a bucket, and the expiry of all of its data."""

import itertools
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from roboco.domain.team.model_profile import ModelProfile
from roboco.redis.keys import Keys
from roboco.redis.rate_limits import Buckets, RedisRateLimiter
from roboco.redis.scripts import Scripts
from tests.contract.redis.rates.test_rate_limits import make_ticket
from tests.contract.redis.task_on_redis import TaskOnRedis
from tests.contract.redis.task_under_test import OPERATOR_LIMITS, wait_of
from tests.support.stack import until


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.sampled_from("rrru"), st.integers(1, 50), st.floats(0, 0.03)), min_size=1, max_size=25))
def test_the_sums_of_a_bucket_equal_its_slots(redis_task: TaskOnRedis, requests: list[tuple[str, int, float]]) -> None:
    many = ModelProfile(model="m", requests_per_minute=100_000, tokens_per_minute=10**6)
    rates = RedisRateLimiter(Scripts(redis_task.client), redis_task.keys, OPERATOR_LIMITS, 0.05, slot=0.005)
    names = Buckets(redis_task.keys, OPERATOR_LIMITS).of(many, "", "desk")[0].keys
    client: Any = redis_task.client
    for kind, tokens, seconds in requests:
        ticket = make_ticket(uuid.uuid4().hex)
        assert wait_of(rates, many, ticket, tokens) == 0
        time.sleep(seconds)  # slots leave the window meanwhile
        if kind == "u":
            rates.record_usage(many, ticket, 2 * tokens, seconds / 2)
        found = client.hgetall(names[0])
        slots = slots_of(found)
        for name, suffix in (("requests", "r"), ("tokens", "t")):
            assert int(found.get(name, 0)) == sum(count for slot, count in slots.items() if slot.endswith(suffix))
            assert all(int(slot[:-1]) >= int(found["oldest"]) for slot in slots)


def slots_of(found: dict[str, str]) -> dict[str, int]:
    """Return the counts of each slot in the hash of a bucket's usage."""
    return {name: int(count) for name, count in found.items() if name[:-1].isdigit()}


def test_a_bucket_begins_anew_if_the_clock_of_redis_was_set_back(redis_task: TaskOnRedis) -> None:
    """As after a failover to a server whose clock is late: all counted slots are in the future."""
    client: Any = redis_task.client
    few = ModelProfile(model="m", requests_per_minute=2)
    rates = RedisRateLimiter(Scripts(client), redis_task.keys, OPERATOR_LIMITS)
    name = Buckets(redis_task.keys, OPERATOR_LIMITS).of(few, "", "desk")[0].keys[0]
    future = int(time.time()) + 3600
    client.hset(name, mapping={"oldest": future, "requests": 2, "tokens": 9, f"{future}r": 2, f"{future}t": 9})
    assert wait_of(rates, few, make_ticket("first"), 1) == 0
    assert wait_of(rates, few, make_ticket("second"), 1) == 0
    assert wait_of(rates, few, make_ticket("third"), 1) > 0
    assert client.hget(name, "requests") == "2"


def test_requests_of_an_earlier_release_count(redis_task: TaskOnRedis) -> None:
    """Workers of two releases share limits during a rolling deployment. The earlier one stored sums with each write."""
    client: Any = redis_task.client
    few = ModelProfile(model="m", requests_per_minute=3, tokens_per_minute=100)
    rates = RedisRateLimiter(Scripts(client), redis_task.keys, OPERATOR_LIMITS)
    buckets, earlier = Buckets(redis_task.keys, OPERATOR_LIMITS), make_ticket("earlier")
    name, slot = buckets.of(few, "", "desk")[0].keys[0], int(time.time())
    client.hset(name, mapping={f"{slot}r": 1, f"{slot}t": 60, "requests": 1, "tokens": 60, "oldest": slot - 1})
    client.pexpire(name, 122_000)
    client.set(buckets.admission_key(few, earlier), f"{slot} 60", px=60_000)
    assert wait_of(rates, few, make_ticket("a"), 50) > 0
    rates.release(few, make_ticket("a"))
    rates.record_usage(few, earlier, 40)
    rates.record_usage(few, earlier, 1)
    assert wait_of(rates, few, make_ticket("b"), 50) == 0
    found = client.hgetall(name)
    assert (found["requests"], found["tokens"]) == ("2", "90")
    assert sum(count for field, count in slots_of(found).items() if field.endswith("t")) == 90
    assert client.pttl(name) > 61_000, "longer than its requests count"


def test_the_usage_of_a_busy_limit_is_a_table_and_that_of_another_a_list(redis_task: TaskOnRedis) -> None:
    """In a list, Redis would walk up to 129 fields to find one."""
    client: Any = redis_task.client
    busy, quiet = (ModelProfile(model="m", requests_per_minute=number) for number in (1_000, 2_000))
    rates = RedisRateLimiter(Scripts(client), redis_task.keys, OPERATOR_LIMITS, slot=0.01)
    names = [Buckets(redis_task.keys, OPERATOR_LIMITS).of(one, "", "desk")[0].keys[0] for one in (busy, quiet)]
    for number in range(101):
        assert wait_of(rates, busy, make_ticket(f"t{number}"), 1) == 0
    time.sleep(0.011)  # the next request begins a slot
    for profile in (busy, quiet):
        assert wait_of(rates, profile, make_ticket(f"last{profile.requests_per_minute}"), 1) == 0
    assert [client.object("encoding", name) for name in names] == ["hashtable", "listpack"]


def test_an_admission_takes_five_commands(redis_task: TaskOnRedis) -> None:
    """They are most of its cost. The fewest of several are counted: other commands may run meanwhile."""
    client: Any = redis_task.client
    many = ModelProfile(model="m", requests_per_minute=1_000, tokens_per_minute=10**6)
    rates = RedisRateLimiter(Scripts(client), redis_task.keys, OPERATOR_LIMITS)
    counts: list[int] = []
    for number in range(10):
        before = commands(client)
        assert wait_of(rates, many, make_ticket(f"t{number}"), 1) == 0
        counts.append(commands(client) - before)
    assert min(counts) == 5


def commands(client: Any) -> int:
    """Return the number of commands that Redis has run, other than scripts and INFO."""
    stats = client.info("commandstats")
    return sum(int(one["calls"]) for name, one in stats.items() if name not in {"cmdstat_evalsha", "cmdstat_info"})


def test_nothing_remains_in_redis_after_an_hour_of_traffic(redis_task: TaskOnRedis) -> None:
    """The hour is compressed: 60 windows of 50 ms. A third of the waiting tickets is lost with its worker."""
    client: Any = redis_task.client
    keys = Keys(f"{redis_task.keys.prefix}-hour")
    rates = RedisRateLimiter(Scripts(client), keys, OPERATOR_LIMITS, window=0.05, grace=0.05, slot=0.005)
    deadline, sizes = time.monotonic() + 60 * 0.05, []

    with ThreadPoolExecutor(4) as pool:
        running = [pool.submit(send_requests, rates, worker, deadline) for worker in range(4)]
        while not all(one.done() for one in running):
            sizes += [client.hlen(name) for name in client.scan_iter(f"{keys.prefix}:*:used")]
        for one in running:
            one.result()
    assert max(sizes) <= 4 + 2 * (0.05 / 0.005 + 2)
    ttls = [client.pttl(name) for name in client.scan_iter(f"{keys.prefix}:*")]
    assert -1 not in ttls
    assert max(ttls, default=0) < 10_000
    until(lambda: not list(client.scan_iter(f"{keys.prefix}:*")), 20, "all of them expire")


def send_requests(rates: RedisRateLimiter, worker: int, deadline: float) -> None:
    """Send requests of five tenants until the deadline. A third of those that wait is lost, a third is released."""
    profile = ModelProfile(model="shared", tokens_per_minute=100)
    for number in itertools.takewhile(lambda _: time.monotonic() < deadline, itertools.count()):
        ticket = make_ticket(f"t{worker}-{number}", f"tenant{number % 5}")
        while (wait := wait_of(rates, profile, ticket, 10)) > 0 and number % 3 and time.monotonic() < deadline:
            time.sleep(min(wait, 0.02))
        if wait <= 0:
            rates.record_usage(profile, ticket, 8)
        elif number % 3 == 1:
            rates.release(profile, ticket)
