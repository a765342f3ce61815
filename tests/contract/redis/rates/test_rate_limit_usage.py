"""Usage of rate limits on Redis: the sums of a bucket, and the expiry of all of its data."""

import itertools
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from roboco.domain.team.model_profile import ModelProfile
from roboco.redis.keys import Keys
from roboco.redis.rate_limits import RedisRateLimiter
from roboco.redis.scripts import Scripts
from tests.contract.redis.rates.test_rate_limits import make_ticket
from tests.contract.redis.task_on_redis import TaskOnRedis
from tests.contract.redis.task_under_test import OPERATOR_LIMITS, wait_of
from tests.support.stack import until


def slots_of(found: dict[str, str]) -> dict[str, int]:
    """Return the counts of each slot in the hash of a bucket's usage."""
    return {name: int(count) for name, count in found.items() if name[:-1].isdigit()}


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
