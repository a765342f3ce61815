"""silent: the memory of one agents process while 500 of its turns wait for models that are silent or slow.

The process has a thread for each turn (ROBOCO_AGENTS_CONCURRENCY); `--size 2` runs 1,000 turns. All models are silent
until two seconds after the request of the last turn. Then each streams a token a second. The baseline is the memory of
the same process before.
"""

import time
from collections.abc import Iterator
from contextlib import closing

from roboco.redis.keys import Keys
from roboco.redis.schedule import RedisSchedule
from roboco.redis.scripts import Scripts
from tests.bench.harness.bench_stack import TASK_TIMEOUT, BenchStack, Size, build_team, new_name
from tests.bench.harness.parallel_streams import AGENTS_THREADS
from tests.bench.harness.process_stats import ProcessMeter
from tests.bench.harness.raw_subscriber import RawSubscriber
from tests.bench.harness.results import Figure, Goal, Measurement, Result
from tests.bench.interrupts import ModelLog
from tests.support.stack import until

TURNS, CHUNKS, INTERVAL, HOLD = 500, 5, 1.0, 2.0
GOAL = Goal(400)


def measure(stack: BenchStack, size: Size) -> Iterator[Result]:
    """Measure all turns at once, in each round."""
    turns = size.of(TURNS, 3)
    threads = max(AGENTS_THREADS, turns)
    agents = stack.agents_with_threads(threads)
    stack.run_team(build_team("writer", prompt="short"))
    idle = agents.memory_mb
    found = [_round(stack, agents, turns) for _ in range(size.rounds)]
    silent, slow, cores, lags = zip(*found, strict=True)
    figures = (
        Figure(f"{turns} turns, a token a second each", slow, "MB", GOAL),
        Figure(f"{turns} turns, silent", silent, "MB", GOAL),
        Figure("the process before", (idle,), "MB"),
        Figure("one turn", tuple((most - idle) / turns for most in slow), "MB"),
        Figure("CPU, a token a second each", cores, "cores"),
    )
    measurement = Measurement("a token's way to its follower", lags)
    yield Result(f"silent, {turns} turns", (measurement,), figures, (f"concurrency of the agents process: {threads}",))


def _round(stack: BenchStack, agents: ProcessMeter, turns: int) -> tuple[float, float, float, tuple[float, ...]]:
    """Return the MB while all models are silent and while all stream, the CPU of streaming, and the tokens' lags."""
    keys, group = Keys(stack.settings.prefix), new_name("group")
    team = build_team("writer", prompt=f"together {turns} {CHUNKS} {INTERVAL} {HOLD} {group}")
    schedule = RedisSchedule(Scripts(stack.redis), keys)
    before, names = schedule.count(), [new_name("task") for _ in range(turns)]
    with (
        closing(ModelLog(stack.model_log)) as log,
        RawSubscriber(stack.valkey.url, [keys.content(name) for name in names]) as subscriber,
    ):
        for name in names:
            stack.orchestrator.run(team, "Go.", task_id=name)
        log.wait(group, "begins")
        silent = agents.memory_mb
        until(lambda: len(subscriber.received) >= turns, TASK_TIMEOUT, "all models stream")
        began, used = time.monotonic(), agents.cpu
        until(
            lambda: len(subscriber.received) >= turns * (CHUNKS - 1),
            TASK_TIMEOUT,
            "all models stream their last chunks",
        )
        slow, cores = agents.memory_mb, (agents.cpu - used) / (time.monotonic() - began)
        until(
            lambda: len(subscriber.received) >= turns * CHUNKS and schedule.count() <= before,
            TASK_TIMEOUT,
            "all tasks have ended",
        )
    return silent, slow, cores, tuple((received_at - sent_at) / 1e9 for sent_at, received_at in subscriber.received)
