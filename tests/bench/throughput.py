"""throughput: short tasks of three agents each, against six plain Celery tasks for each in the same pools.

All are submitted at once, by this process, and measured is the time until the last one has ended. The plain ones are
three times two that send each other, as the coordinator's and the agents' do; theirs is the same number of chains. Each
pool has one process first, and then more.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

from roboco import Task
from roboco.adapters.redis.keys import Keys
from roboco.adapters.redis.schedule import RedisSchedule
from roboco.adapters.redis.scripts import Scripts
from tests.bench.processes import plain_celery
from tests.bench.harness.results import Figure, Goal, Lane, Measure, Result, Series, in_turn
from tests.bench.harness.bench_stack import PATIENCE, Size, Stage, fresh, team_of
from tests.support.stack import until

TASKS = 1_000
PROCESSES = 2
AGENTS = ("planner", "writer", "critic")
GOAL = Goal(0.4, at_least=True)


def measure(stage: Stage, size: Size) -> Iterator[Result]:
    """The tasks and the chains by turns, with one worker of each pool, then with more of them."""
    tasks = size.of(TASKS, 3)
    measures: dict[str, Measure] = {
        "a task, of all at once": lambda _: [run_tasks(stage, tasks)],
        "its plain Celery tasks": lambda _: [_chains(stage, tasks)],
    }
    stage.keep(plain_celery.POOLS, "tests.bench.processes.plain_celery")
    found: list[tuple[Lane, ...]] = []
    for processes in range(1, size.of(PROCESSES) + 1):
        with ExitStack() as exits:
            more = [f"-{number}" for number in range(2, processes + 1)]
            exits.enter_context(stage.running([pool + one for one in more for pool in ("coordinator", "agents")]))
            plains = [pool + one for one in more for pool in plain_celery.POOLS]
            exits.enter_context(stage.running(plains, "tests.bench.processes.plain_celery"))
            found.append(in_turn(measures, size.rounds))
    rates = [
        _rate("Roboco", [one[0] for one in found]),
        _rate("plain Celery, six for a task", [one[1] for one in found]),
    ]
    notes = [f"{one.name}, tasks a second by processes of each pool: {_told(one)}" for one in rates]
    figures = tuple(_figure(processes, *lanes) for processes, lanes in enumerate(found, start=1))
    name = f"throughput, {tasks} tasks of {len(AGENTS)} agents"
    yield Result(name, found[0], figures, tuple(notes), tuple(rates))


def run_tasks(stage: Stage, tasks: int, **team_fields: Any) -> float:
    """Run so many tasks of three agents, all submitted at once: seconds for each."""
    team = team_of(*AGENTS, prompt="short", **team_fields)
    schedule = RedisSchedule(Scripts(stage.redis), Keys(stage.settings.prefix))
    before = schedule.count()
    began = time.perf_counter()
    last: list[Task] = [stage.orchestrator.run(team, "Go.") for _ in range(tasks)]
    until(lambda: schedule.count() <= before, PATIENCE, "all tasks have ended")
    took = time.perf_counter() - began
    assert last[-1].result(PATIENCE).status == "completed", last[-1]
    return took / tasks


def _chains(stage: Stage, chains: int) -> float:
    """Seconds for each of so many chains of plain Celery tasks."""
    name = fresh("chains")
    began = time.perf_counter()
    with plain_celery.application_on(stage.settings.broker) as app:
        for number in range(chains):
            plain_celery.send(app, plain_celery.ADVANCE, f"{name}:{number}", len(AGENTS) - 1)
    until(partial(_ended, stage, name, chains), PATIENCE, "all chains have ended")
    return (time.perf_counter() - began) / chains


def _ended(stage: Stage, name: str, chains: int) -> bool:
    return int(stage.redis.llen(name)) == chains


def _figure(processes: int, ours: Lane, plain_ones: Lane) -> Figure:
    rounds = tuple(limit / own for own, limit in zip(ours.medians, plain_ones.medians, strict=True))
    return Figure(f"throughput / that of plain Celery tasks, {processes} of each pool", rounds, goal=GOAL)


def _rate(name: str, lanes: Sequence[Lane]) -> Series:
    points = [(float(processes), 1 / lane.at(50)) for processes, lane in enumerate(lanes, start=1)]
    return Series("throughput_over_workers", name, tuple(points))


def _told(series: Series) -> str:
    return ", ".join(f"{processes:g}: {rate:.0f}" for processes, rate in series.points)
