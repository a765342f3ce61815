"""scale: 100,000 open tasks, which wait for their users: memory, refill, recovery, and how late the sweepers are.

The tasks are copies of one task that a worker has run, written into the workspace with their markers. Redis is emptied
while one or two coordinators run. Recovery lasts from then until every task is scheduled, and until each is rebuilt in
Redis and checked once. A refill enters the tasks in a full schedule, as it happens every 30 minutes. On S3, each
request waits 40 ms in a proxy, which counts it.

Of more than MAX_COMPARED_TASKS tasks, only two coordinators are timed until each task is rebuilt.

It runs only by name, because it takes minutes: `python -m tests.bench scale --runs 1`, or `scale_folder` and `scale_s3`
for one of both.
"""

import json
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from redis import Redis

from roboco.domain.canonical_json import canonical_json
from roboco.domain.history.step import digest_of
from roboco.domain.ids import step_id_at
from roboco.domain.paths import OPENED, open_marker_path, summary_path, team_path
from roboco.domain.shard import SHARDS
from roboco.lab.servers.gate import Gate
from roboco.local.seaweed import S3Server, start_seaweed
from roboco.redis.client import connect
from roboco.redis.keys import Keys
from roboco.redis.schedule import RedisSchedule
from roboco.redis.scripts import Scripts
from roboco.workspace.open import Workspace, open_workspace
from tests.bench.harness.bench_stack import TASK_TIMEOUT, BenchStack, DeployedStack, Size, build_team
from tests.bench.harness.process_stats import cpu_with_children
from tests.bench.harness.results import Figure, Goal, Result
from tests.support.stack import s3_environment, until

TASKS, S3_TASKS, SHORT_TASKS = 100_000, 10_000, 5_000
S3_DELAY = 0.04
"""Seconds that each request to the S3 server waits in the proxy."""
WRITERS = 16
RECOVERY_GOAL = Goal(120)
"""Seconds in which two coordinators schedule all tasks."""
COORDINATORS = ("coordinator", "coordinator-2")
START_TIMEOUT = 3600
MAX_COMPARED_TASKS = 20_000
"""The most tasks that one coordinator rebuilds, too, beside two: it rebuilds about 100 a second."""
POLL_INTERVAL = 0.05
ANSWERS = 20
"""Tasks whose users answer, on S3."""
QUIET_SECONDS = 3.0


@dataclass(frozen=True)
class Template:
    """The files of a task that waits for its user. Its id is replaced in the copies."""

    task_id: str
    team: bytes
    summary: bytes
    lines: tuple[bytes, ...]

    def copy_to(self, workspace: Workspace, task_id: str) -> None:
        """Write a task with the same steps and an open marker."""
        workspace.files.create(team_path(task_id), self.team)
        assert workspace.histories.create(task_id, self._sealed(task_id))
        workspace.files.create(summary_path(task_id), self._renamed(self.summary, task_id))
        workspace.files.create(open_marker_path(task_id), OPENED)

    def _renamed(self, data: bytes, task_id: str) -> bytes:
        for seq in range(len(self.lines)):
            data = data.replace(step_id_at(self.task_id, seq).encode(), step_id_at(task_id, seq).encode())
        return data.replace(self.task_id.encode(), task_id.encode())

    def _sealed(self, task_id: str) -> list[bytes]:
        sealed, digest = list[bytes](), ""
        for line in self.lines:
            record = json.loads(self._renamed(line, task_id)) | {"prev_digest": digest}
            digest = digest_of(record)
            sealed.append(canonical_json(record | {"digest": digest}).encode())
        return sealed


def measure(stack: BenchStack, size: Size) -> Iterator[Result]:
    """Measure the folder, then the S3 server behind a proxy."""
    yield from measure_folder(stack, size)
    yield from measure_s3(stack, size)


def measure_folder(stack: BenchStack, size: Size) -> Iterator[Result]:
    """Measure the folder alone."""
    template = _run_template(stack)
    with tempfile.TemporaryDirectory(prefix="roboco-scale-") as folder:
        yield _measure_folder(Path(folder), template, size.of(TASKS, 200), size.of(SHORT_TASKS, 20))


def measure_s3(stack: BenchStack, size: Size) -> Iterator[Result]:
    """Measure the S3 server alone."""
    template = _run_template(stack)
    with tempfile.TemporaryDirectory(prefix="roboco-scale-") as folder:
        yield _measure_s3(Path(folder), template, size.of(S3_TASKS, 100))


def _run_template(stack: BenchStack) -> Template:
    """Run a task until it waits for its user, and return its files."""
    team = build_team("writer", prompt="short", collaboration_model={"type": "manual"})
    task = stack.orchestrator.run(team, "Go.")
    assert task.result(TASK_TIMEOUT).status == "user_turn", task
    workspace = _workspace(stack)
    files = [workspace.files.get(path(task.task_id)) or b"" for path in (team_path, summary_path)]
    lines = tuple(workspace.histories.lines(task.task_id))
    task.stop()
    return Template(task.task_id, files[0], files[1], lines)


def _workspace(stack: DeployedStack) -> Workspace:
    settings = stack.settings
    return open_workspace(settings.workspace, settings.s3_endpoint_url, settings.s3_timeout)


def _measure_folder(folder: Path, template: Template, tasks: int, short_tasks: int) -> Result:
    with DeployedStack(folder, pools=(), lease_seconds=15.0) as stack:
        written = _write_tasks(stack, template, tasks)
        empty = _used_memory(stack)
        is_compared = tasks <= MAX_COMPARED_TASKS
        if is_compared:
            _recover(stack, tasks, 2)  # the first recovery of all also writes derived files
        recoveries = {1: _recover(stack, tasks, 1, is_compared), 2: _recover(stack, tasks, 2)}
        rebuilt = (_used_memory(stack) - empty) / tasks
        with _coordinators(stack, 2):
            refill = _time_refill(stack)
            latest = _latest_while_busy(stack, short_tasks)
    figures = (
        Figure(f"one coordinator schedules {tasks:,} tasks", (recoveries[1].scheduled,), "s"),
        Figure("two do", (recoveries[2].scheduled,), "s", RECOVERY_GOAL),
        Figure("two rebuild and check them", (recoveries[2].checked,), "s"),
        *(_comparison(recoveries[1], recoveries[2], tasks) if is_compared else ()),
        Figure("refill", (refill,), "s"),
        Figure("Redis memory of a rebuilt task that waits for its user", (rebuilt / 1024,), "KB"),
        Figure(f"age of the oldest due task while {short_tasks:,} tasks run", (latest,), "s"),
    )
    return Result("scale, folder", (), figures, (f"wrote {tasks / written:.0f} tasks a second",))


def _comparison(one: "Recovery", two: "Recovery", tasks: int) -> tuple[Figure, ...]:
    return (
        Figure("one rebuilds and checks them", (one.checked,), "s"),
        Figure("one / two", (one.checked / two.checked,), ""),
        Figure("CPU of coordinators for a task", tuple(found.cpu / tasks * 1000 for found in (one, two)), "ms"),
        Figure("CPU of Redis for a task", tuple(found.redis_cpu / tasks * 1000 for found in (one, two)), "ms"),
    )


def _measure_s3(folder: Path, template: Template, tasks: int) -> Result:
    with ExitStack() as opened:
        s3 = start_seaweed(folder / "s3")
        opened.callback(s3.stop)
        gate = opened.enter_context(Gate(s3.port))
        opened.enter_context(s3_environment(s3))
        around = _behind(gate, s3)
        stack = opened.enter_context(DeployedStack(folder, (), s3, around=around, lease_seconds=15.0))
        _write_tasks(stack, template, tasks)
        gate.delay = S3_DELAY
        gate.requests.clear()
        recovery = _recover(stack, tasks, 2)
        recovered = gate.requests.copy()
        with _coordinators(stack, 2):
            gate.requests.clear()
            refill = _time_refill(stack)
            refilled = gate.requests.copy()
            answered = _requests_of_answers(stack, gate)
    figures = (
        Figure(f"two schedule {tasks:,} tasks, 40 ms a request", (recovery.scheduled,), "s"),
        Figure("two rebuild and check them", (recovery.checked,), "s"),
        Figure("refill", (refill,), "s"),
        Figure("requests to recover a task, with its first pass", (sum(recovered.values()) / tasks,)),
        Figure("requests to refill a task", (sum(refilled.values()) / tasks,)),
        Figure("requests of an answer and its turn", (sum(answered.values()) / ANSWERS,)),
    )
    counts = (
        f"to recover: {_each(recovered, tasks)}; to refill: {dict(refilled)}; an answer: {_each(answered, ANSWERS)}"
    )
    return Result("scale, S3", (), figures, (counts,))


def _requests_of_answers(stack: DeployedStack, gate: Gate) -> Counter[str]:
    """Return the requests of this number of answers to waiting tasks, each with a turn and the wait after it."""
    team = build_team("writer", prompt="short", collaboration_model={"type": "manual"})
    with stack.running_workers(("agents",)):
        tasks = [stack.orchestrator.run(team, "Go.") for _ in range(ANSWERS)]
        for task in tasks:
            task.result(START_TIMEOUT)
        _until_quiet(gate)
        gate.requests.clear()
        for task in tasks:
            task.send("Go on.")
        _until_quiet(gate)
        counted = gate.requests.copy()
        assert all(task.summary().steps >= 4 for task in tasks), "the store was quiet before all had answered"
        return counted


def _until_quiet(gate: Gate) -> None:
    """Wait until no request has arrived for a second: the coordinators have archived all tasks."""
    before, since = -1, time.monotonic()

    def is_quiet() -> bool:
        nonlocal before, since
        if (now := sum(gate.requests.values())) != before:
            before, since = now, time.monotonic()
        return time.monotonic() - since > QUIET_SECONDS

    until(is_quiet, START_TIMEOUT, "no request to the store")


def _behind(gate: Gate, s3: S3Server) -> Callable[[Any], Any]:
    """Return the context of a stack whose workspace is on the S3 server behind the gate."""

    @contextmanager
    def around(_: Any) -> Iterator[dict[str, Any]]:
        yield {"s3_endpoint_url": f"http://127.0.0.1:{gate.port}", "workspace": f"s3://{s3.bucket}/scale"}

    return around


def _write_tasks(stack: DeployedStack, template: Template, tasks: int) -> float:
    """Write the workspaces and markers. Return the seconds."""
    workspace, beginning = _workspace(stack), time.monotonic()
    with ThreadPoolExecutor(WRITERS) as pool:
        for _ in pool.map(lambda number: template.copy_to(workspace, f"open-{number:06}"), range(tasks)):
            pass
    return time.monotonic() - beginning


@dataclass(frozen=True)
class Recovery:
    """A recovery after FLUSHALL. All times are in seconds."""

    scheduled: float
    """The time until every task was in the schedule."""
    checked: float
    """The time until every task was rebuilt, and checked once."""
    cpu: float
    """CPU of the coordinators."""
    redis_cpu: float


def _recover(stack: DeployedStack, tasks: int, coordinators: int, until_checked: bool = True) -> Recovery:
    """Empty Redis while the coordinators run. Return how long they take; without the checks, `checked` is too early."""
    with _coordinators(stack, coordinators):
        clocks = [stack.workers[name].pid for name in COORDINATORS[:coordinators]]
        _redis(stack).flushall()
        beginning, before = time.monotonic(), sum(map(cpu_with_children, clocks))
        redis_before = cpu_with_children(stack.valkey.pid)
        schedule = _schedule(stack)
        until(lambda: schedule.count() >= tasks, START_TIMEOUT, f"{tasks} tasks are scheduled")
        scheduled = time.monotonic() - beginning
        if until_checked:
            until(lambda: _is_checked(stack), START_TIMEOUT, "every task was checked")
        return Recovery(
            scheduled,
            checked=time.monotonic() - beginning,
            cpu=sum(map(cpu_with_children, clocks)) - before,
            redis_cpu=cpu_with_children(stack.valkey.pid) - redis_before,
        )


@contextmanager
def _coordinators(stack: DeployedStack, count: int) -> Iterator[None]:
    with stack.running_workers(COORDINATORS[:count]):
        yield


def _time_refill(stack: DeployedStack) -> float:
    """Return the seconds of a refill."""
    filled = _keys(stack).schedule_filled
    until(lambda: _redis(stack).exists(filled), START_TIMEOUT, "the schedule is filled")
    beginning = time.monotonic()
    _redis(stack).delete(filled)
    until(lambda: _redis(stack).exists(filled), START_TIMEOUT, "the schedule is filled again")
    return time.monotonic() - beginning


def _latest_while_busy(stack: DeployedStack, tasks: int) -> float:
    """Return the largest age of a due entry, in seconds, while these tasks run."""
    team = build_team("first", "second", "third", prompt="short")
    ages, ended = [0.0], threading.Event()

    def sample() -> None:
        while not ended.wait(POLL_INTERVAL):
            ages.append(_oldest_age(stack))

    with stack.running_workers(("agents",)), ThreadPoolExecutor(1) as sampler:
        sampling = sampler.submit(sample)
        try:
            with ThreadPoolExecutor(4) as submitters:
                running = list(submitters.map(lambda _: stack.orchestrator.run(team, "Go."), range(tasks)))
            for task in running:
                task.result(START_TIMEOUT)
        finally:
            ended.set()
        sampling.result()
    return max(ages)


def _schedule_keys(stack: DeployedStack) -> list[str]:
    keys = _keys(stack)
    return [key for shard in range(SHARDS) for key in (keys.schedule(shard), keys.scheduled_jobs(shard))]


def _overdue(stack: DeployedStack) -> int:
    """Return the number of due entries."""
    return sum(int(_redis(stack).zcount(key, "-inf", time.time())) for key in _schedule_keys(stack))


def _is_checked(stack: DeployedStack) -> bool:
    """Return True if no entry is due. Costs a second between two looks, so that the looks cost the servers little."""
    time.sleep(1.0)
    return _overdue(stack) == 0


def _oldest_age(stack: DeployedStack) -> float:
    """Return the age of the oldest due entry in seconds, or 0."""
    now = time.time()
    oldest: list[Sequence[Any]] = [_redis(stack).zrange(key, 0, 0, withscores=True) for key in _schedule_keys(stack)]
    return max((max(0.0, now - float(found[0][1])) for found in oldest if found), default=0.0)


def _schedule(stack: DeployedStack) -> RedisSchedule:
    return RedisSchedule(Scripts(_redis(stack)), _keys(stack))


@cache
def _redis(stack: DeployedStack) -> Redis:
    return connect(stack.settings.redis_url)


def _keys(stack: DeployedStack) -> Keys:
    return Keys(stack.settings.prefix)


def _used_memory(stack: DeployedStack) -> int:
    memory: Any = _redis(stack).info("memory")
    return int(memory["used_memory"])


def _each(requests: Counter[str], tasks: int) -> str:
    return ", ".join(f"{method} {count / tasks:.2f}" for method, count in sorted(requests.items()))
