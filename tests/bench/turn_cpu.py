"""turn_cpu: processor time of a turn in the agents process, against that of a plain Celery task in several workers.

All tasks are submitted at once, so that the processes are busy: an idle one wakes up for every message. The time is
that of the process and its children, in all threads, from before the first task until the last one has ended. A plain
task receives one message and sends one, as a turn does; it calls no model and stores nothing.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from tests.bench.harness.bench_stack import TASK_TIMEOUT, BenchStack, Size, new_name
from tests.bench.harness.process_stats import cpu_with_children
from tests.bench.harness.results import Figure, Goal, Measurement, Result, Sampler, measure_alternately, ratio
from tests.bench.processes.plain_cpu import POOLS, start
from tests.bench.throughput import AGENTS, run_tasks
from tests.support.stack import until

TASKS, HOPS = 200, 15
MODULE = "tests.bench.processes.plain_cpu"
GOAL = Goal(6)
LEAN_GOAL = 1.0
"""The goal of a turn without its model call, against two plain tasks."""


def measure(stack: BenchStack, size: Size) -> Iterator[Result]:
    """Measure turns, bare model calls and each kind of plain tasks alternately."""
    tasks = size.of(TASKS, 3)
    samplers: dict[str, Sampler] = {
        "a turn": lambda _: [_measure_turns(stack, tasks)],
        "a call by a plain reader": lambda _: [_measure_calls(tasks, stack.bare_model.time_plain_call)],
        "a call by the openai package": lambda _: [_measure_calls(tasks, stack.bare_model.time_call)],
    }
    for pool, name in POOLS.items():
        stack.ensure_workers([pool], MODULE)
        samplers[name] = partial(_measure_plain, stack, pool, tasks)
    measurements = turn, plain, call, lean, *_ = measure_alternately(samplers, size.rounds)
    figures = (
        Figure("CPU of a turn", _milliseconds(turn), "ms", GOAL),
        ratio(turn, lean, lean, less=call, goal=LEAN_GOAL),
        ratio(turn, lean, lean, less=plain),
        ratio(turn, lean),
    )
    yield Result("turn_cpu", measurements, figures)


def _milliseconds(measurement: Measurement) -> tuple[float, ...]:
    return tuple(seconds * 1000 for seconds in measurement.medians)


def _measure_turns(stack: BenchStack, tasks: int) -> float:
    """Return the seconds of processor time of a turn, for tasks with one turn of each agent."""
    before = _cpu(stack, "agents")
    run_tasks(stack, tasks)
    return (_cpu(stack, "agents") - before) / (tasks * len(AGENTS))


def _measure_calls(calls: int, call: Callable[[Sequence[Any]], object]) -> float:
    """Return the seconds of processor time of a model call, in an otherwise idle process."""
    messages = [{"role": "system", "content": "short"}, {"role": "user", "content": "Go."}]
    before = time.process_time()
    for _ in range(calls):
        call(messages)
    return (time.process_time() - before) / calls


def _measure_plain(stack: BenchStack, pool: str, chains: int, _: int) -> list[float]:
    """Return the seconds of processor time of a plain task, with as many chains as there are tasks."""
    name = new_name("cpu")
    before = _cpu(stack, pool)
    start(stack.settings.broker, pool, [name] * chains, HOPS)
    until(lambda: int(stack.redis.llen(name)) == chains, TASK_TIMEOUT, f"{pool} has run all chains")
    return [(_cpu(stack, pool) - before) / (chains * HOPS)]


def _cpu(stack: BenchStack, pool: str) -> float:
    return cpu_with_children(stack.workers[pool].pid)
