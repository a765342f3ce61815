"""growth: what 20,000 short tasks leave in one coordinator, one agents worker and one tools worker.

Each task has a turn with a tool call and a turn after it. The bench samples the processes of each worker together:
their resident memory, descriptors and threads, and the clients of Redis. It prints the slopes of the first and of the
second half of the tasks, by least squares: a cache that levels off has a slope in the first half alone.

It runs only by name: `python -m tests.bench soak`, or `--size 0.1` for 2,000 tasks.
"""

import statistics
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

from roboco import Task, Team
from tests.bench.harness.bench_stack import TASK_TIMEOUT, BenchStack, Size, build_team
from tests.bench.harness.process_stats import resident_kb, tree_of
from tests.bench.harness.results import Figure, Goal, Result, Series
from tests.support.stack import POOLS

TASKS = 20_000
OPEN = 16
"""Tasks that are open at once."""
SAMPLES = 40
MEMORY_GOAL = Goal(1.0)
"""KB of a task in the second half: 10 MB. Once in each process Python doubles its table of strings, by 3.8 MB."""
NAMES = ("memory", "descriptors", "threads")


@dataclass(frozen=True)
class Sample:
    """The sums of all processes of a worker."""

    memory_kb: float
    descriptors: int
    threads: int


def measure(stack: BenchStack, size: Size) -> Iterator[Result]:
    """Run the tasks, and print the slope of each number for each worker."""
    tool = {"name": "nap", "function": "tests.bench.processes.nap_tool:nap", "effect": "pure", "timeout": 20}
    team = build_team(agents=[{"name": "one", "prompt": "tools 1", "tools": ["nap"]}], tools=[tool])
    done, clients = list[int](), list[float]()
    found: dict[str, list[Sample]] = {pool: [] for pool in POOLS}
    for number in _run(stack, team, size.of(TASKS, SAMPLES)):
        done.append(number)
        clients.append(float(len(list(stack.redis.client_list()))))
        for pool, samples in found.items():
            samples.append(sample(stack.workers[pool].pid))
    figures, series = list[Figure](), list[Series]()
    for pool, samples in found.items():
        for name, values in zip(NAMES, zip(*map(astuple, samples), strict=True), strict=True):
            figures += _figures(f"{pool}, {name}", done, values, "KB" if name == "memory" else "")
            series.append(Series("growth", f"{pool}, {name}", tuple(zip(map(float, done), values, strict=True))))
    figures += _figures("clients of Redis", done, clients, "")
    yield Result("soak", (), tuple(figures), series=tuple(series))


def _run(stack: BenchStack, team: Team, tasks: int) -> Iterator[int]:
    """Run the tasks, and yield the number of those that have ended SAMPLES times."""
    waiting: deque[Task] = deque()
    for number in range(tasks + OPEN):
        if number < tasks:
            waiting.append(stack.orchestrator.run(team, "Go."))
        if number >= OPEN:
            assert waiting.popleft().result(TASK_TIMEOUT).status == "completed"
            ended = number - OPEN + 1
            if ended % max(1, tasks // SAMPLES) == 0:
                yield ended


def sample(pid: int) -> Sample:
    """Return the sums of a worker's processes now. One that ends meanwhile does not count."""
    memory, descriptors, threads = 0.0, 0, 0
    for process in tree_of(pid):
        try:
            descriptors += len(list(Path(f"/proc/{process}/fd").iterdir()))
            threads += len(list(Path(f"/proc/{process}/task").iterdir()))
            memory += resident_kb(process)
        except OSError:
            continue
    return Sample(memory, descriptors, threads)


def _figures(name: str, done: Sequence[int], values: Sequence[float], unit: str) -> Iterator[Figure]:
    """Yield the slopes of both halves, for each task (memory) or for each 1,000 tasks."""
    half, per = len(done) // 2, 1 if unit else 1000
    slopes = [
        statistics.linear_regression(done[part], values[part]).slope * per
        for part in (slice(0, half), slice(half, None))
    ]
    of = f"{unit} a task" if unit else "of 1,000 tasks"
    goal = MEMORY_GOAL if unit else Goal(1.0)
    yield Figure(f"{name}: {values[0]:.0f} to {values[-1]:.0f}, slope of the first half", (slopes[0],), of)
    yield Figure(f"{name}: slope of the second half", (slopes[1],), of, goal)
