"""commands: the Redis commands of a turn and of a chunk, and the memory in Redis of a task that waits for its user.

The bench counts the lines of MONITOR that name a task, from its submission to its end. It leaves out the connections of
Celery, to which kombu gives a name, and those of this process. The difference of two tasks of different lengths leaves
out the costs of their starts and ends. Commands inside scripts are counted separately: they do not cross the network.
The sweeper reads twice a second even without tasks; these commands name no task.
"""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any

from redis import Redis

from roboco import Orchestrator, Task
from roboco.broker.broker import TRANSPORT_OPTIONS
from roboco.redis.keys import Keys
from tests.bench.harness.bench_stack import TASK_TIMEOUT, BenchStack, Size, build_team
from tests.bench.harness.results import Figure, Goal, Result

TURNS, CHUNKS, WAITING = 100, 100, 1_000
INTERVAL = 0.01
CLIENT_NAME = "bench"
"""The name of the connections of this process."""
CELERY_CLIENT_NAME = str(TRANSPORT_OPTIONS["client_name"])
END_MARK = "the bench has seen enough"
SAMPLED_TASKS = 20
"""Number of waiting tasks whose keys are measured."""

Counts = tuple[Counter[str], Counter[str]]
"""The commands that clients sent, and those that scripts called, by name."""


class CommandLog:
    """The commands that Redis received while `recording`."""

    def __init__(self, stack: BenchStack) -> None:
        self._stack = stack
        self._lines: list[dict[str, Any]] = []
        self._client_names: dict[str, str] = {}

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record the lines of MONITOR until the end of the block."""
        listening = threading.Event()
        thread = threading.Thread(target=self._listen, args=(listening,), daemon=True)
        thread.start()
        assert listening.wait(30), "MONITOR does not begin"
        yield
        clients: Any = self._stack.redis.client_list()
        self._client_names = {client["addr"]: client["name"] for client in clients}
        self._stack.redis.echo(END_MARK)
        thread.join(30)

    def count(self, task: Task) -> Counts:
        """Return the counts of the commands that name the task, and of all transactions."""
        clients, scripts = Counter[str](), Counter[str]()
        for line in self._lines:
            name = line["command"].partition(" ")[0].upper()
            address = f"{line['client_address']}:{line['client_port']}"
            if task.task_id not in line["command"] and name not in ("MULTI", "EXEC"):
                continue
            if line["client_type"] == "lua":
                scripts[name] += 1
            elif self._client_names.get(address, "") not in (CELERY_CLIENT_NAME, CLIENT_NAME):
                clients[name] += 1
        return clients, scripts

    def _listen(self, listening: threading.Event) -> None:
        with Redis.from_url(self._stack.valkey.url, decode_responses=True) as client, client.monitor() as monitor:
            listening.set()
            for line in monitor.listen():
                if line["command"].endswith(END_MARK):
                    return
                self._lines.append(line)


def measure(stack: BenchStack, size: Size) -> Iterator[Result]:
    """Count the commands of turns of one chunk and of more chunks, and measure the memory of waiting tasks."""
    turns, chunks = 2 * size.of(TURNS // 2, 2), size.of(CHUNKS, 5)
    with _orchestrator(stack) as orchestrator:
        _count_commands(stack, orchestrator, "count", 2)
        short, long = (_count_commands(stack, orchestrator, "count", number) for number in (2, 2 + turns))
        few, many = (
            _count_commands(stack, orchestrator, f"stream {number} {INTERVAL}", 2) for number in (5, 5 + chunks)
        )
        turn, chunk = _increase(short, long, turns), _increase(few, many, 2 * chunks)
        waiting, notes = _measure_waiting(stack, orchestrator, size.of(WAITING, 5))
    figures = (
        Figure("commands of a turn of one chunk", (_total(turn),), "commands", Goal(8)),
        Figure("commands of a chunk", (_total(chunk),), "commands", Goal(1)),
        waiting,
    )
    yield Result("commands", (), figures, (_describe("a turn", turn), _describe("a chunk", chunk), *notes))


@contextmanager
def _orchestrator(stack: BenchStack) -> Iterator[Orchestrator]:
    """Yield an orchestrator whose connections have a name."""
    named = {"redis_url": f"{stack.settings.redis_url}?client_name={CLIENT_NAME}", "broker_url": stack.settings.broker}
    with Orchestrator(stack.settings.model_copy(update=named)) as orchestrator:
        yield orchestrator


def _count_commands(stack: BenchStack, orchestrator: Orchestrator, prompt: str, turns: int) -> Counts:
    """Return the counts of the commands of a task with this number of turns."""
    commands = CommandLog(stack)
    sequential = {"type": "sequential", "rounds": turns // 2}
    with commands.recording():
        task = orchestrator.run(build_team("first", "second", prompt=prompt, collaboration_model=sequential), "1000")
        assert task.result(TASK_TIMEOUT).status == "completed", task
    return commands.count(task)


def _increase(less: Counts, more: Counts, times: int) -> dict[str, list[tuple[str, float]]]:
    """Return the increase in each command, divided by `times`."""
    increase = {}
    for kind, before, after in zip(("by clients", "in scripts"), less, more, strict=True):
        each = [(name, (after[name] - before[name]) / times) for name in sorted(before | after)]
        increase[kind] = [(name, number) for name, number in each if abs(number) >= 0.01]
    return increase


def _total(increase: dict[str, list[tuple[str, float]]], kind: str = "by clients") -> float:
    return sum(number for _, number in increase[kind])


def _describe(thing: str, increase: dict[str, list[tuple[str, float]]]) -> str:
    kinds = [
        f"{kind} {_total(increase, kind):.2f} ({', '.join(f'{name} {number:.2f}' for name, number in increase[kind])})"
        for kind in increase
    ]
    return f"commands of {thing}: {'; '.join(kinds)}"


def _measure_waiting(stack: BenchStack, orchestrator: Orchestrator, tasks: int) -> tuple[Figure, tuple[str, ...]]:
    """Return the KB of a task that waits for its user, without the tail of its history, and a note of the keys."""
    team = build_team("writer", prompt="short", collaboration_model={"type": "manual"})
    before = _used_memory(stack)
    waiting = [orchestrator.run(team, "Go.") for _ in range(tasks)]
    for task in waiting:
        result = task.result(TASK_TIMEOUT)
        assert result.status == "user_turn", result
    used = (_used_memory(stack) - before) / tasks
    keys = [_bytes_by_key(stack, task) for task in waiting[:SAMPLED_TASKS]]
    beside = tuple(sum(sizes.values()) - sizes.get("tail", 0) for sizes in keys)
    each = ", ".join(f"{name} {median([sizes.get(name, 0) for sizes in keys]):.0f}" for name in sorted(keys[0]))
    for task in waiting:
        task.stop()
    figure = Figure("of a waiting task beside its tail", tuple(size / 1024 for size in beside), "KB", Goal(4))
    note = f"bytes of a waiting task by key: {each}; growth of used_memory for each of {tasks}: {used:.0f}"
    return figure, (note,)


def _bytes_by_key(stack: BenchStack, task: Task) -> dict[str, int]:
    """Return the bytes of each key that names the task, from MEMORY USAGE."""
    prefix = Keys(stack.settings.prefix).state(task.task_id).removesuffix("state")
    keys: Any = stack.redis.keys(f"*{task.task_id}*")
    return {key.removeprefix(prefix): int(stack.redis.memory_usage(key, samples=0) or 0) for key in keys}


def _used_memory(stack: BenchStack) -> int:
    memory: Any = stack.redis.info("memory")
    return int(memory["used_memory"])
