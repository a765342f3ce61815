"""rate_limits: the time that a request costs Redis' thread, at different rates and with many waiting tickets.

A minute is compressed to six seconds, with as many slots in its window. A request is its admission and the record of
its tokens. The time is that of the scripts, from INFO commandstats. The figures of 10 requests a minute are the
baseline of the others.

The CPU time of the thread, from INFO cpu without that of an idle thread, contains also what surrounds the scripts:
sockets, the append-only file and the expiry of keys. Two PINGs at the same rate are its floor.
"""

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import median
from typing import Any

from redis import Redis

from roboco.domain.team.model_limits import ModelLimits
from roboco.domain.team.model_profile import ModelProfile
from roboco.ports.rate_limits import Admitted, Queued, Ticket
from roboco.redis.keys import Keys
from roboco.redis.rate_limits import RedisRateLimiter
from roboco.redis.scripts import Scripts
from tests.bench.harness.bench_stack import BenchStack, Size
from tests.bench.harness.results import Figure, Goal, Result

WINDOW, SLOT = 6.1, 0.1
"""Seconds of the window and of a slot: a tenth of those of the product."""
RATES = (10, 1_000, 10_000)
"""Requests for each window."""
MAX_RATE = RATES[-1]
PROCESSES = 16
"""Agents processes that share the requests equally."""
WAITING_TICKETS = 1_000
ASKS = 200
"""Requests of waiting tickets that are measured."""
UNLIMITED_TOKENS = 10**9
IDLE_SECONDS = 3.0
"""Seconds for which the CPU time of an idle Redis is measured."""


@dataclass(frozen=True)
class Cost:
    """The microseconds of Redis' thread for a request."""

    scripts: float
    cpu: float
    """The CPU time, with what surrounds the scripts."""


def measure(stack: BenchStack, size: Size) -> Iterator[Result]:
    """Measure admitted requests at each rate, and requests that wait behind many others."""
    costs: dict[int, list[Cost]] = {rate: [] for rate in RATES}
    waits: list[float] = []
    pings: list[float] = []
    idle = _idle_share(stack.redis)
    for number in range(size.rounds):
        for rate in RATES:
            costs[rate].append(_cost_at(stack, rate, f"rate{number}-{rate}", size.fraction, idle))
        pings.append(_cost_of_pings(stack, size.fraction, idle))
        waits.append(_cost_of_waiting(stack, f"waiting{number}", size.of(WAITING_TICKETS, 20), idle))
    times = {rate: tuple(cost.scripts for cost in found) for rate, found in costs.items()}
    growth = tuple(high / low for low, high in zip(times[RATES[0]], times[MAX_RATE], strict=True))
    whole = tuple(cost.cpu for cost in costs[MAX_RATE])
    yield Result(
        "rate_limits",
        (),
        (
            Figure(
                f"share of Redis' thread in scripts of {MAX_RATE:,} requests a minute",
                _shares(times[MAX_RATE]),
                "%",
                Goal(2),
            ),
            Figure("its CPU time for them, with sockets, file and expiry", _shares(whole), "%"),
            Figure("its CPU time for two PINGs for each of them", _shares(tuple(pings)), "%"),
            Figure(f"time of a request at {MAX_RATE:,} a minute, against {RATES[0]}", growth, goal=Goal(1.5)),
            *(Figure(f"time of a request at {rate:,} a minute", times[rate], "µs") for rate in RATES),
            Figure(f"time of a request behind {size.of(WAITING_TICKETS, 20):,} others", tuple(waits), "µs"),
        ),
        (f"median: {median(times[MAX_RATE]):.0f} µs a request, admission and record",),
    )


def _shares(costs: tuple[float, ...]) -> tuple[float, ...]:
    """Return the percentages of a thread that requests of these microseconds take at the highest rate."""
    return tuple(100 * cost * MAX_RATE / 60 / 1e6 for cost in costs)


def _cost_at(stack: BenchStack, rate: int, name: str, fraction: float, idle: float) -> Cost:
    """Return the cost of a request, once requests at this rate have filled the window."""
    limiters = itertools.cycle([_limiter(stack, name) for _ in range(PROCESSES)])
    profile = ModelProfile(model="m", requests_per_minute=10 * MAX_RATE, tokens_per_minute=UNLIMITED_TOKENS)

    def request() -> None:
        limiter = next(limiters)
        ticket = Ticket(f"t{time.monotonic_ns()}", "desk", "1/1/0")
        assert isinstance(limiter.reserve(profile, ticket, 1_000), Admitted)
        limiter.record_usage(profile, ticket, 900, SLOT)

    _repeat(request, rate, WINDOW * fraction)
    return _cost(stack.redis, lambda: _repeat(request, rate, 2 * WINDOW * fraction), idle)


def _cost_of_pings(stack: BenchStack, fraction: float, idle: float) -> float:
    """Return the microseconds of CPU for two PINGs at the highest rate."""

    def ping_twice() -> None:
        stack.redis.ping()
        stack.redis.ping()

    return _cost(stack.redis, lambda: _repeat(ping_twice, MAX_RATE, WINDOW * fraction), idle).cpu


def _repeat(act: Callable[[], None], rate: int, seconds: float) -> int:
    """Act at this rate for each window. Return the number of times."""
    beginning = time.monotonic()
    done = 0
    while (elapsed := time.monotonic() - beginning) < seconds:
        if done > elapsed * rate / WINDOW:
            time.sleep(0.001)
            continue
        act()
        done += 1
    return done


def _cost_of_waiting(stack: BenchStack, name: str, tickets: int, idle: float) -> float:
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

    return _cost(stack.redis, ask, idle).scripts


def _limiter(stack: BenchStack, name: str) -> RedisRateLimiter:
    keys = Keys(f"{stack.settings.prefix}-{name}")
    return RedisRateLimiter(Scripts(stack.redis), keys, ModelLimits(), WINDOW, slot=SLOT)


def _cost(redis: Redis, act: Callable[[], int], idle: float) -> Cost:
    """Return the cost of each request that `act` makes, without the share of an idle thread."""
    scripts, cpu, beginning = _script_time(redis), _thread_time(redis), time.monotonic()
    requests = max(1, act())
    used = _thread_time(redis) - cpu - idle * (time.monotonic() - beginning)
    return Cost((_script_time(redis) - scripts) / requests, 1e6 * used / requests)


def _idle_share(redis: Redis) -> float:
    """Return the share of its thread that an idle Redis takes."""
    cpu, beginning = _thread_time(redis), time.monotonic()
    time.sleep(IDLE_SECONDS)
    return (_thread_time(redis) - cpu) / (time.monotonic() - beginning)


def _script_time(redis: Redis) -> float:
    """Return the microseconds of scripts."""
    stats: Any = redis.info("commandstats")
    return float(stats.get("cmdstat_evalsha", {}).get("usec", 0))


def _thread_time(redis: Redis) -> float:
    """Return the CPU seconds of Redis' thread."""
    stats: Any = redis.info("cpu")
    return float(stats["used_cpu_user_main_thread"]) + float(stats["used_cpu_sys_main_thread"])
