"""unit_costs: the costs of a task, a turn and a token in each process, from which the sizing table is computed.

The bench runs tasks of three and of nine turns; the difference is the cost of a further turn. The costs of a process
include its children. Tokens are those of 40 streams of 20 tokens a second, sent one by one; with more streams, several
tokens are sent together.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tests.bench.harness.bench_stack import BenchStack, Size
from tests.bench.harness.parallel_streams import scale_chunks, shared_relays
from tests.bench.harness.process_stats import cpu_with_children
from tests.bench.harness.results import Figure, Result
from tests.bench.throughput import AGENTS, run_tasks

TASKS, ROUNDS, STREAMS, CHUNKS = 100, 3, 40, 60
COUNTS = {
    "Redis, commands": "total_commands_processed",
    "Redis, bytes to": "total_net_input_bytes",
    "Redis, bytes from": "total_net_output_bytes",
}

Costs = Mapping[str, float]
"""CPU milliseconds by process, and commands and bytes of Redis, for one task, turn or token."""


def measure(stack: BenchStack, size: Size) -> Iterator[Result]:
    """Measure the costs of a task, a turn and a token."""
    tasks, chunks = size.of(TASKS, 3), scale_chunks(size, CHUNKS)
    more = (ROUNDS - 1) * len(AGENTS)
    found: dict[str, list[Costs]] = {"a task of 3 turns": [], "a further turn": []}
    run_tasks(stack, tasks)
    for _ in range(size.rounds):
        short, long = (_measure_costs(stack, tasks, rounds) for rounds in (1, ROUNDS))
        found["a task of 3 turns"].append(short)
        found["a further turn"].append({name: (long[name] - short[name]) / more for name in short})
    for thing, costs in found.items():
        yield Result(f"unit_costs, {thing}", (), tuple(_figures(costs)))
    relays = shared_relays(stack)
    tokens = [relays.relay_by_roboco(size.of(STREAMS), chunks).cpu for _ in range(size.rounds)]
    names = {"relay": "agents", "Redis": "Redis"}
    figures = [Figure(f"CPU, {named}", tuple(one[name] * 1e6 for one in tokens), "µs") for name, named in names.items()]
    yield Result("unit_costs, a token", (), tuple(figures))


def _measure_costs(stack: BenchStack, tasks: int, rounds: int) -> Costs:
    """Return the costs of each of this number of tasks, with this number of turns of every agent."""
    counts = _counts(stack)
    meters = {name: _Meter(clock) for name, clock in _clocks(stack).items()}
    run_tasks(stack, tasks, collaboration_model={"type": "sequential", "rounds": rounds})
    costs = {f"CPU, {name}": meter.milliseconds / tasks for name, meter in meters.items()}
    after = _counts(stack)
    return costs | {name: (after[name] - counts[name]) / tasks for name in counts}


class _Meter:
    """The time that has passed on a clock since the creation of this object."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._began = clock()

    @property
    def milliseconds(self) -> float:
        """Milliseconds since the creation."""
        return (self._clock() - self._began) * 1000


def _clocks(stack: BenchStack) -> dict[str, Callable[[], float]]:
    pids = {"coordinator": stack.workers["coordinator"].pid, "agents": stack.workers["agents"].pid}
    others = {name: _clock(pid) for name, pid in (pids | {"Redis": stack.valkey.pid}).items()}
    return {"client": time.process_time} | others


def _clock(pid: int) -> Callable[[], float]:
    return lambda: cpu_with_children(pid)


def _counts(stack: BenchStack) -> dict[str, float]:
    stats: Any = stack.redis.info("stats")
    return {name: float(stats[field]) for name, field in COUNTS.items()}


def _figures(costs: list[Costs]) -> Iterator[Figure]:
    for name in costs[0]:
        yield Figure(name, tuple(one[name] for one in costs), "ms" if name.startswith("CPU") else name.split()[1])
