"""throughput: short tasks of three agents each, against six plain Celery tasks for each in the same pools.

This process submits all tasks at once, and the bench measures the time until the last one has ended. The baseline is
the same number of chains of six plain Celery tasks. They alternate between two queues, as the messages of the
coordinator and of the agents do. Each pool has one process first, and then more.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

from roboco import Task
from roboco.redis.keys import Keys
from roboco.redis.schedule import RedisSchedule
from roboco.redis.scripts import Scripts
from tests.bench.harness.bench_stack import TASK_TIMEOUT, BenchStack, Size, build_team, new_name
from tests.bench.harness.results import Figure, Goal, Measurement, Result, Sampler, measure_alternately
from tests.bench.processes import plain_celery
from tests.support.stack import until

TASKS = 1_000
PROCESSES = 2
AGENTS = ("planner", "writer", "critic")
GOAL = Goal(0.6, at_least=True)


def measure(stack: BenchStack, size: Size) -> Iterator[Result]:
    """Measure the tasks and the chains alternately, with one worker of each pool, then with more workers."""
    tasks = size.of(TASKS, 3)
    samplers: dict[str, Sampler] = {
        "a task, of all at once": lambda _: [run_tasks(stack, tasks)],
        "its plain Celery tasks": lambda _: [_run_chains(stack, tasks)],
    }
    stack.ensure_workers(plain_celery.POOLS, "tests.bench.processes.plain_celery")
    found: list[tuple[Measurement, ...]] = []
    for processes in range(1, size.of(PROCESSES) + 1):
        with ExitStack() as exits:
            more = [f"-{number}" for number in range(2, processes + 1)]
            exits.enter_context(
                stack.running_workers([pool + one for one in more for pool in ("coordinator", "agents")])
            )
            plains = [pool + one for one in more for pool in plain_celery.POOLS]
            exits.enter_context(stack.running_workers(plains, "tests.bench.processes.plain_celery"))
            found.append(measure_alternately(samplers, size.rounds))
    notes = [
        f"{name}, tasks a second by processes of each pool: {_describe([one[which] for one in found])}"
        for which, name in enumerate(("Roboco", "plain Celery, six for a task"))
    ]
    figures = tuple(_figure(processes, *measurements) for processes, measurements in enumerate(found, start=1))
    name = f"throughput, {tasks} tasks of {len(AGENTS)} agents"
    yield Result(name, found[0], figures, tuple(notes))


def run_tasks(stack: BenchStack, tasks: int, **team_fields: Any) -> float:
    """Run this number of tasks of three agents, all submitted at once, and return the seconds for each."""
    team = build_team(*AGENTS, prompt="short", **team_fields)
    schedule = RedisSchedule(Scripts(stack.redis), Keys(stack.settings.prefix))
    before = schedule.count()
    began = time.perf_counter()
    last: list[Task] = [stack.orchestrator.run(team, "Go.") for _ in range(tasks)]
    until(lambda: schedule.count() <= before, TASK_TIMEOUT, "all tasks have ended")
    took = time.perf_counter() - began
    assert last[-1].result(TASK_TIMEOUT).status == "completed", last[-1]
    return took / tasks


def _run_chains(stack: BenchStack, chains: int) -> float:
    """Run this number of chains of plain Celery tasks, and return the seconds for each."""
    name = new_name("chains")
    began = time.perf_counter()
    with plain_celery.create_plain_app(stack.settings.broker) as app:
        for number in range(chains):
            plain_celery.send(app, plain_celery.ADVANCE, f"{name}:{number}", len(AGENTS) - 1)
    until(partial(_all_ended, stack, name, chains), TASK_TIMEOUT, "all chains have ended")
    return (time.perf_counter() - began) / chains


def _all_ended(stack: BenchStack, name: str, chains: int) -> bool:
    return int(stack.redis.llen(name)) == chains


def _figure(processes: int, roboco: Measurement, plain: Measurement) -> Figure:
    rounds = tuple(baseline / own for own, baseline in zip(roboco.medians, plain.medians, strict=True))
    return Figure(f"throughput / that of plain Celery tasks, {processes} of each pool", rounds, goal=GOAL)


def _describe(measurements: Sequence[Measurement]) -> str:
    rates = (1 / measurement.percentile(50) for measurement in measurements)
    return ", ".join(f"{processes}: {rate:.0f}" for processes, rate in enumerate(rates, start=1))
