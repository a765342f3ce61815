"""simulation: what a deployment with up to a million open tasks needs, minute by minute, and what saturates first.

    waits of people ─► sessions of turns ─► work by minute ─► cores, requests, memory, cost
    (random, seeded)   (random)             (measured costs)

Most open tasks wait for people, for an hour or for a week (log-normal). Then the person answers, mostly by day, and the
task works for some turns. The simulation draws these for each task of a sample over three days. It counts the work of
each minute of the last day, and multiplies it by the costs that the benches have measured. `roboco/docs/scaling.md` has
the tables that it prints:

    python -m tests.bench.simulation
"""

import argparse
import math
import random
from bisect import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final

SIZES: Final = (1_000, 10_000, 100_000, 1_000_000)
"""Numbers of open tasks."""
MAX_SAMPLE: Final = 100_000
"""Tasks that are simulated one by one; of more tasks, each of the sample represents several."""
DAYS: Final = 3
INTERVALS_OF_DAY: Final = 1440
"""Intervals of a day in which work is counted, a minute each."""
SEED: Final = 19

# ---- the load, which a shop replaces by its own

MEDIAN_WAIT: Final = 4 * 60.0
"""Minutes that a task waits for its person, in the median."""
WAIT_SIGMA: Final = 2.0
"""Spread of the logarithm of a wait: the mean is 30 hours, and one wait of fifty is longer than ten days."""
MEAN_TURNS: Final = 4
"""Turns after each answer, on average."""
TURN_TOKENS: Final = 300
"""Tokens of a turn, which a model writes at 20 a second."""
DAY_SWING: Final = 0.8
"""Part by which the activity at noon is above the mean, and that at midnight is below it."""
TASK_STEPS: Final = 20
"""Steps of the history of an open task, on average."""
STEP_BYTES: Final = 1_600
"""Bytes of a step of that many tokens."""


@dataclass(frozen=True)
class Costs:
    """The measured costs. Times are in milliseconds of CPU."""

    # `unit_costs` of commit ba400d30, and `streams` with 200 streams in a process for tokens
    turn_agents: float = 7.0
    turn_redis: float = 1.5
    token_agents: float = 0.18
    token_redis: float = 0.065
    session_coordinator: float = 7.0
    # `python -m tests.bench scale --runs 1`, folder
    rebuild_coordinator: float = 7.0
    rebuild_redis: float = 1.4
    # `python -m tests.bench.task_index`, and `test_bounded_memory` with TASK_STEPS=10000
    state_bytes: int = 2_170
    index_bytes: int = 520
    chunk_bytes: int = 300


@dataclass(frozen=True)
class Requests:
    """Requests to S3, of the kinds that Amazon charges: writes (PUT, LIST), reads (GET, HEAD); DELETE costs nothing."""

    writes: float
    reads: float


# `python -m tests.bench scale --runs 1`, S3, the table of `deploy/README.md`, and
# `tests/unit/engine/record/test_requests.py`
TURN_REQUESTS: Final = Requests(1, 2)
"""Requests of a further turn."""
ANSWER_REQUESTS: Final = Requests(6, 8)
"""Requests of an answer of the user, of its first turn, and of the wait after it."""
CHECK_REQUESTS: Final = Requests(2, 3)
REBUILD_REQUESTS: Final = Requests(8.1, 13.1)
REFILL_TASKS: Final = 1_000
"""Tasks that one LIST of a refill finds."""
REFILLS_A_DAY: Final = 48
LATENCY: Final = 0.04
"""Seconds of a request to S3."""
LANES: Final = 16
"""Tasks that a coordinator checks at the same time."""
WRITE_PRICE, READ_PRICE, STORED_PRICE = 5e-6, 4e-7, 0.023
"""Dollars for a request, and for a GB a month: S3 Standard, us-east-1, list price."""
CORE_LOAD: Final = 0.7
"""Part of a core that a process uses at most, so that peaks of seconds pass."""
TAIL_STEPS: Final = 64
MARKS: Final = ("<!-- simulation -->", "<!-- end -->")
"""The lines of `roboco/docs/scaling.md` between which the tables are."""
FIRST_CHECK, LAST_CHECK = 60.0, 1440.0
"""Minutes until the first check of a waiting task, and between later ones at most; they double."""


@dataclass
class Work:
    """The work of each minute of a day."""

    sessions: list[int] = field(default_factory=lambda: [0] * INTERVALS_OF_DAY)
    turns: list[int] = field(default_factory=lambda: [0] * INTERVALS_OF_DAY)
    checks: list[int] = field(default_factory=lambda: [0] * INTERVALS_OF_DAY)


def simulate(tasks: int, seed: int = SEED) -> tuple[Work, int]:
    """Return the work of the last day of a sample of the tasks, and the tasks that each of the sample represents."""
    sample = min(tasks, MAX_SAMPLE)
    dice, work = random.Random(seed), Work()
    activity = _Activity()
    for _ in range(sample):
        _simulate_task(dice, activity, work)
    return work, tasks // sample


class _Activity:
    """The activity of people over the days: waits last as long as it takes to add up to their length."""

    def __init__(self) -> None:
        days = range((DAYS + 1) * INTERVALS_OF_DAY)
        rates = (1 - DAY_SWING * math.cos(2 * math.pi * minute / INTERVALS_OF_DAY) for minute in days)
        self._sums = list(accumulate(rates))

    def after(self, minute: float, wait: float) -> float:
        """Return the minute at which a wait that began then has ended, or a later one than all days."""
        begun = self._sums[min(int(minute), len(self._sums) - 1)]
        return float(bisect(self._sums, begun + wait))


def _simulate_task(dice: random.Random, activity: _Activity, work: Work) -> None:
    end, first = DAYS * INTERVALS_OF_DAY, (DAYS - 1) * INTERVALS_OF_DAY
    now, wait = 0.0, dice.random() * _draw_wait(dice)
    while now < end:
        answered = activity.after(now, wait)
        for check in checks(now, min(answered, end)):
            if check >= first:
                work.checks[int(check) - first] += 1
        now = answered
        if first <= now < end:
            turns = 1 + int(dice.expovariate(1 / (MEAN_TURNS - 0.5)))
            work.sessions[int(now) - first] += 1
            work.turns[int(now) - first] += turns
        wait = _draw_wait(dice)


def _draw_wait(dice: random.Random) -> float:
    return dice.lognormvariate(math.log(MEDIAN_WAIT), WAIT_SIGMA)


def checks(begun: float, ended: float) -> Iterator[float]:
    """Yield the minutes at which the sweeper checks a task that waits."""
    at, delay = begun + FIRST_CHECK, FIRST_CHECK
    while at < ended:
        yield at
        delay = min(max(FIRST_CHECK, at - begun), LAST_CHECK)
        at += delay


@dataclass(frozen=True)
class Need:
    """The needs of a number of open tasks, in the busiest ten minutes of the day, and in a month."""

    tasks: int
    turns_a_second: float
    live_turns: float
    agents: float
    """Cores."""
    coordinators: float
    """Cores."""
    redis: float
    """Cores of Redis' thread, broker included."""
    redis_bytes: float
    writes: float
    """Requests a second."""
    reads: float
    monthly_requests: float
    """Dollars."""
    monthly_checks: float
    """Dollars of these that waiting tasks cost, refills included."""
    monthly_storage: float
    recovery: float
    """Seconds in which one coordinator rebuilds all tasks after a loss of Redis."""


def need_of(tasks: int, costs: Costs = Costs()) -> Need:
    """Return what this number of open tasks needs."""
    work, factor = simulate(tasks)
    turns, sessions, checks = (_peak(of) * factor for of in (work.turns, work.sessions, work.checks))
    further_turns = turns - sessions
    daily = [sum(of) * factor for of in (work.turns, work.sessions, work.checks)]
    daily[0] -= daily[1]
    tokens = turns * TURN_TOKENS
    live = turns * TURN_TOKENS / 20
    refill = tasks / REFILL_TASKS * REFILLS_A_DAY
    kinds = (TURN_REQUESTS, ANSWER_REQUESTS, CHECK_REQUESTS)
    monthly = [30 * _dollars(count, of) for count, of in zip(daily, kinds, strict=True)]
    refills = 30 * refill * WRITE_PRICE
    rebuild = max(
        (REBUILD_REQUESTS.writes + REBUILD_REQUESTS.reads) * LATENCY / LANES, costs.rebuild_coordinator / 1000
    )
    return Need(
        tasks=tasks,
        turns_a_second=turns,
        live_turns=live,
        agents=(turns * costs.turn_agents + tokens * costs.token_agents) / 1000,
        coordinators=(sessions * costs.session_coordinator + checks * costs.rebuild_coordinator) / 1000,
        redis=(turns * costs.turn_redis + tokens * costs.token_redis + checks * costs.rebuild_redis) / 1000,
        redis_bytes=tasks * (costs.state_bytes + costs.index_bytes + min(TASK_STEPS, TAIL_STEPS) * STEP_BYTES)
        + live * TURN_TOKENS * costs.chunk_bytes,
        writes=further_turns * TURN_REQUESTS.writes
        + sessions * ANSWER_REQUESTS.writes
        + checks * CHECK_REQUESTS.writes,
        reads=further_turns * TURN_REQUESTS.reads + sessions * ANSWER_REQUESTS.reads + checks * CHECK_REQUESTS.reads,
        monthly_requests=sum(monthly) + refills,
        monthly_checks=monthly[2] + refills,
        monthly_storage=tasks * TASK_STEPS * STEP_BYTES * 2 / 1e9 * STORED_PRICE,
        recovery=tasks * rebuild,
    )


def _peak(counts: Sequence[int]) -> float:
    """Return the work of a second in the busiest ten minutes."""
    return max(sum(counts[at : at + 10]) for at in range(len(counts) - 9)) / 600


def _dollars(count: float, requests: Requests) -> float:
    return count * (requests.writes * WRITE_PRICE + requests.reads * READ_PRICE)


def table(needs: Sequence[Need]) -> str:
    """Return the sizing table, as Markdown."""
    head = "| open tasks | turns a second | live turns | agents | coordinators | Redis | S3 writes, reads a second |"
    rows = [head, "|---|---|---|---|---|---|---|"]
    for need in needs:
        memory = f"{need.redis_bytes / 1e9:.2g} GB, {need.redis:.2f} cores"
        agents, own = _cores(need.agents), _cores(need.coordinators)
        numbers = f"{need.turns_a_second:,.1f} | {need.live_turns:,.0f} | {agents} | {own} | {memory}"
        rows.append(f"| {need.tasks:,} | {numbers} | {need.writes:,.0f}, {need.reads:,.0f} |")
    head = "| open tasks | S3 requests a month | of these for waiting tasks | recovery, by coordinators |"
    rows += ["", head, "|---|---|---|---|"]
    for need in needs:
        money = f"${need.monthly_requests:,.0f} | ${need.monthly_checks:,.0f}"
        rows.append(f"| {need.tasks:,} | {money} | {_recovery(need.recovery)} |")
    return "\n".join(rows)


def _cores(cores: float) -> str:
    processes = max(2, math.ceil(cores / CORE_LOAD))
    return f"{cores:.2f} cores, {processes} processes"


def _recovery(seconds: float) -> str:
    """Return the time with two coordinators, and the number of them that needs ten minutes at most."""
    enough = max(2, math.ceil(seconds / 600))
    return f"{math.ceil(seconds / 2 / 60):,} min with 2, 10 min with {enough}"


def document(text: str) -> str:
    """Return the text of a guide with the present tables between its two marks."""
    head, _, rest = text.partition(MARKS[0])
    _, _, tail = rest.partition(MARKS[1])
    return f"{head}{MARKS[0]}\n{table([need_of(tasks) for tasks in SIZES])}\n{MARKS[1]}{tail}"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description="Compute what up to a million open tasks need.")
    parser.add_argument("--tasks", type=int, nargs="*", default=list(SIZES), help="numbers of open tasks")
    print(table([need_of(tasks) for tasks in parser.parse_args().tasks]))


if __name__ == "__main__":
    main()
