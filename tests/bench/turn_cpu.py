"""turn_cpu: processor time of a turn in the agents process, against that of a plain Celery task in several workers.

All tasks are submitted at once, so that the processes are busy: an idle one wakes up for every message. The time is
that of the process and its children, in all threads, from before the first task until the last one has ended. A plain
task receives one message and sends one, as a turn does; it calls no model and stores nothing.
"""

import time
from collections.abc import Iterator
from functools import partial

from tests.bench.figures import Figure, Goal, Lane, Measure, Result, in_turn, ratio
from tests.bench.noise import cpu_with_children
from tests.bench.plain_cpu import POOLS, start
from tests.bench.stage import PATIENCE, Size, Stage, fresh
from tests.bench.throughput import AGENTS, run_tasks
from tests.support.stack import until

TASKS, HOPS = 200, 15
MODULE = "tests.bench.plain_cpu"
GOAL = Goal(6)
LEAN_GOAL = 1.0
"""Of what a turn takes beyond the model call, against two plain tasks."""


def measure(stage: Stage, size: Size) -> Iterator[Result]:
    """The turns and each kind of plain tasks by turns, one kind at a time."""
    tasks = size.of(TASKS, 3)
    measures: dict[str, Measure] = {
        "a turn": lambda _: [_of_turns(stage, tasks)],
        "a bare model call": lambda _: [_of_calls(stage, tasks)],
    }
    for pool, name in POOLS.items():
        stage.keep([pool], MODULE)
        measures[name] = partial(_plain, stage, pool, tasks)
    lanes = turn, call, lean, *_ = in_turn(measures, size.rounds)
    figures = (
        Figure("CPU of a turn", _milliseconds(turn), "ms", GOAL),
        ratio(turn, lean, lean, less=call, goal=LEAN_GOAL),
        ratio(turn, lean),
    )
    yield Result("turn_cpu", lanes, figures)


def _milliseconds(lane: Lane) -> tuple[float, ...]:
    return tuple(seconds * 1000 for seconds in lane.medians)


def _of_turns(stage: Stage, tasks: int) -> float:
    """Seconds of processor time of a turn, of tasks with one turn of each agent."""
    before = _cpu(stage, "agents")
    run_tasks(stage, tasks)
    return (_cpu(stage, "agents") - before) / (tasks * len(AGENTS))


def _of_calls(stage: Stage, calls: int) -> float:
    """Seconds of processor time of a call with the openai package alone, in a process that does nothing else."""
    messages = [{"role": "system", "content": "short"}, {"role": "user", "content": "Go."}]
    before = time.process_time()
    for _ in range(calls):
        stage.bare.call(messages)
    return (time.process_time() - before) / calls


def _plain(stage: Stage, pool: str, chains: int, _: int) -> list[float]:
    """Seconds of processor time of a plain task, of as many chains as there are tasks."""
    name = fresh("cpu")
    before = _cpu(stage, pool)
    start(stage.settings.broker, pool, [name] * chains, HOPS)
    until(lambda: int(stage.redis.llen(name)) == chains, PATIENCE, f"{pool} has run all chains")
    return [(_cpu(stage, pool) - before) / (chains * HOPS)]


def _cpu(stage: Stage, pool: str) -> float:
    return cpu_with_children(stage.workers[pool].pid)
