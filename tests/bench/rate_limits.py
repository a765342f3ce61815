"""rate_limits: the time that a request costs Redis' thread, at different rates and with many waiting tickets.

A minute is compressed to six seconds, with as many slots in its window. A request is its admission and the record of
its tokens. The time is that of the scripts, from INFO commandstats. The figures of 10 requests a minute are the
baseline of the others.
"""

import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

from redis import Redis

from roboco.adapters.redis.keys import Keys
from roboco.adapters.redis.rate_limits import RedisRateLimiter
from roboco.adapters.redis.scripts import Scripts
from roboco.domain.team.model_limits import ModelLimits
from roboco.domain.team.model_profile import ModelProfile
from roboco.ports.rate_limits import Admitted, Queued, Ticket
from tests.bench.harness.bench_stack import BenchStack, Size
from tests.bench.harness.results import Figure, Goal, Result

WINDOW, SLOT = 6.1, 0.1
"""Seconds of the window and of a slot: a tenth of those of the product."""
RATES = (10, 1_000, 10_000)
"""Requests for each window."""
MAX_RATE = RATES[-1]
WAITING_TICKETS = 1_000
ASKS = 200
"""Requests of waiting tickets that are measured."""
UNLIMITED_TOKENS = 10**9


def measure(stack: BenchStack, size: Size) -> Iterator[Result]:
    """Measure admitted requests at each rate, and requests that wait behind many others."""
    costs: dict[int, list[float]] = {rate: [] for rate in RATES}
    waits: list[float] = []
    for number in range(size.rounds):
        for rate in RATES:
            costs[rate].append(_cost_at(stack, rate, f"rate{number}-{rate}", size.fraction))
        waits.append(_cost_of_waiting(stack, f"waiting{number}", size.of(WAITING_TICKETS, 20)))
    shares = tuple(100 * cost * MAX_RATE / 60 / 1e6 for cost in costs[MAX_RATE])
    growth = tuple(high / low for low, high in zip(costs[RATES[0]], costs[MAX_RATE], strict=True))
    yield Result(
        "rate_limits",
        (),
        (
            Figure(f"share of Redis' thread of {MAX_RATE:,} requests a minute", shares, "%", Goal(1)),
            Figure(f"time of a request at {MAX_RATE:,} a minute, against {RATES[0]}", growth, goal=Goal(1.5)),
            *(Figure(f"time of a request at {rate:,} a minute", tuple(costs[rate]), "µs") for rate in RATES),
            Figure(f"time of a request behind {size.of(WAITING_TICKETS, 20):,} others", tuple(waits), "µs"),
        ),
        (f"median: {median(costs[MAX_RATE]):.0f} µs a request, admission and record",),
    )


def _cost_at(stack: BenchStack, rate: int, name: str, fraction: float) -> float:
    """Return the microseconds of a request, once requests at this rate have filled the window."""
    limiter = _limiter(stack, name)
    profile = ModelProfile(model="m", requests_per_minute=10 * MAX_RATE, tokens_per_minute=UNLIMITED_TOKENS)

    def send(seconds: float) -> int:
        beginning = time.monotonic()
        sent = 0
        while (elapsed := time.monotonic() - beginning) < seconds:
            if sent > elapsed * rate / WINDOW:
                time.sleep(0.001)
                continue
            ticket = Ticket(f"t{time.monotonic_ns()}", "desk", "1/1/0")
            assert isinstance(limiter.reserve(profile, ticket, 1_000), Admitted)
            limiter.record_usage(profile, ticket, 900, SLOT)
            sent += 1
        return sent

    send(WINDOW * fraction)
    return _script_time(stack.redis, lambda: send(2 * WINDOW * fraction))


def _cost_of_waiting(stack: BenchStack, name: str, tickets: int) -> float:
    """Return the microseconds of a request that has to wait behind many others."""
    limiter = _limiter(stack, name)
    profile = ModelProfile(model="m", requests_per_minute=1)
    for number in range(tickets):
        limiter.reserve(profile, Ticket(f"t{number}", "desk", "1/1/0"), 1)

    def ask() -> int:
        for number in range(ASKS):
            answer = limiter.reserve(profile, Ticket(f"t{tickets // 2 + number}", "desk", "1/1/0"), 1)
            assert isinstance(answer, Queued)
        return ASKS

    return _script_time(stack.redis, ask)


def _limiter(stack: BenchStack, name: str) -> RedisRateLimiter:
    keys = Keys(f"{stack.settings.prefix}-{name}")
    return RedisRateLimiter(Scripts(stack.redis), keys, ModelLimits(), WINDOW, slot=SLOT)


def _script_time(redis: Redis, act: Callable[[], int]) -> float:
    """Return the microseconds of Redis' thread in scripts, for each request that `act` makes."""
    before = _stats(redis)
    requests = act()
    return (_stats(redis) - before) / max(1, requests)


def _stats(redis: Redis) -> float:
    stats: Any = redis.info("commandstats")
    return float(stats.get("cmdstat_evalsha", {}).get("usec", 0))
