"""Operations: the queues, workers and rate limits of a deployment at this moment, for an operator's displays.

    broker: length and oldest message of each lane ─► QueueReport        27 lanes, whatever waits in them
    Redis: registrations of workers, newest first  ─► WorkersReport      `limit` of each pool
    Redis: slots and queues of rate limits         ─► RateReport         200 limits: the operator's, and those of the
                                                                         teams of 50 open tasks
    Redis: open tasks, those with work first       ─► OpenTasks          `limit` tasks, and their rate limits
    Redis: a page of the task index, and its tasks ─► StuckPage          `limit` tasks
         (a read of Redis each) no step for long, no worker at work ─► cause; the broker's queues once a page, and only
         if a cause needs them
Each method asks one server, so that a server that does not answer hides only its own part. The rates also need teams
from the workspace: if it does not answer, they lack those teams, and one call in 30 s waits for its time-out. The
list of stuck tasks asks the broker too, and names its error if it does not answer. It does not read the workspace.
None writes but `drain`, and each may run at any time, any number of times. No answer grows with the number of tasks,
messages or dead letters.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import zip_longest
from typing import Final, Unpack

import redis
from celery import Celery

from roboco.broker.names import QUEUES
from roboco.broker.queues import QueueStats, queue_description, read_queue_stats
from roboco.client.operator.open_teams import OpenTeams
from roboco.client.options import TaskFilterOptions
from roboco.client.task_list import check_limit, task_filter
from roboco.domain.history.step import start_time_of
from roboco.domain.log_text import log_text
from roboco.domain.rate_report import RateReport
from roboco.domain.schema import RecordModel
from roboco.domain.status import TaskStatus
from roboco.domain.task_entry import TaskEntry
from roboco.domain.task_filter import TaskFilter
from roboco.domain.team.model_profile import ModelLimits
from roboco.engine.accept.evidence import Kind
from roboco.engine.accept.wait_cause import default_threshold, wait_cause
from roboco.engine.engine import Engine
from roboco.errors import NotFound, TransientError, UsageError
from roboco.ports.registry import DRAINING, LIVENESS_TIMEOUT, POOLS, PoolStatus, RegisteredWorker
from roboco.ports.snapshot import Phase, Snapshot
from roboco.redis.keys import Keys
from roboco.redis.monitor import LiveTask, RedisMonitor

MAX_WORKERS: Final = 1000
"""Workers of a pool that a report lists at most."""
STUCK_STATUSES: Final = frozenset({TaskStatus.QUEUED, TaskStatus.RUNNING})
"""The statuses in which a task should progress by itself."""
MAX_CAUSE_CHARS: Final = 600
"""Characters of a cause at most."""
WORK_KINDS: Final = ("turn", "tool", "advance", "notify", "mcp")
"""The parts of the ids of Celery tasks that name their kind."""
SAMPLED_TASKS: Final = 50
"""Open tasks whose teams' rate limits are reported: those with running work first."""


class QueueReport(RecordModel):
    """A queue with its lanes and priorities."""

    name: str
    waiting: int
    """Messages that no worker has received."""
    oldest_age: float | None
    """Seconds since the oldest of them was sent, or None if none waits, or the broker is not Redis."""


class PoolReport(RecordModel):
    """A pool of workers."""

    name: str
    live: int
    """Workers that have registered in the last ten seconds."""
    registered: int
    """Workers that have registered in the last 24 hours."""


class RunningWork(RecordModel):
    """A Celery task that a worker runs."""

    id: str
    task_id: str
    """The task of which it is a turn, a call or a pass, or "" if it is of none."""
    kind: str
    """`turn`, `tool`, `advance`, `notify`, `mcp`, or "" for a message from outside."""
    since: datetime | None
    """When it began, or None if the worker does not say."""


class WorkerReport(RecordModel):
    """A worker, as it registered last."""

    name: str
    """Its node name, such as `celery@host`."""
    pools: list[str]
    alive: bool
    """True if it has registered in the last ten seconds. A worker registers every three."""
    silent_for: float
    """Seconds since it registered."""
    active: int
    """Celery tasks that it ran then."""
    running: list[str]
    """The ids of at most 100 of them. The id of a turn or call begins with the id of its task and a slash."""
    held: list[RunningWork] = []
    """The same, the longest running first, with the times at which they began."""
    version: str = ""
    """The release of Roboco that it runs, or "" for one that does not say."""
    modules: list[str] = []
    """The modules of tools that it has imported."""
    draining: bool = False
    """True if it is shutting down: it takes no new work, and ends with the work that it has."""
    drains_for: float | None = None
    """Seconds from its last registration until it hands that work over to other workers, if it drains."""


class WorkersReport(RecordModel):
    """The workers that have registered in the last 24 hours."""

    pools: list[PoolReport]
    workers: list[WorkerReport]
    """The last registration first."""


class Overview(RecordModel):
    """The numbers of open tasks and dead letters of all tenants."""

    open_tasks: int
    dead_letters: int


class StuckTask(RecordModel):
    """A task that does not progress."""

    task_id: str
    team: str
    status: TaskStatus
    stuck_for: float
    """Seconds since its last step."""
    kind: Kind
    """The cause, for programs."""
    cause: str
    """The cause, with the remedy if there is one."""


class StuckPage(RecordModel):
    """The stuck tasks of a page, the latest change of a status first. A page may be empty and have a cursor."""

    tasks: list[StuckTask]
    cursor: str
    """The cursor of the next page, or "" after the last one."""
    complete: bool
    """False while the task index is rebuilt from the workspace: until then tasks may be missing."""


@dataclass(frozen=True)
class OpenTasks:
    """Open tasks at this moment, with the names of their teams as far as they are known, and their rate limits."""

    tasks: tuple[LiveTask, ...] = ()
    teams: Mapping[str, str] = field(default_factory=dict)
    rates: tuple[RateReport, ...] = ()


class LiveState:
    """Redis and the broker as they are now. Each method raises TransientError if its server does not answer."""

    def __init__(self, engine: Engine, app: Celery, client: redis.Redis, keys: Keys, limits: ModelLimits) -> None:
        self._app = app
        self._monitor = RedisMonitor(client, keys, limits)
        self._teams = OpenTeams(lambda task_id: engine.workspace.frozen_teams.get(task_id))

    def queues(self) -> list[QueueStats]:
        """Return Roboco's queues."""
        return read_queue_stats(self._app, QUEUES)

    def rates(self) -> list[RateReport]:
        """Return the operator's rate limits, and those of the teams of some open tasks."""
        teams = self._teams.update(self._monitor.task_ids(SAMPLED_TASKS))
        return self._monitor.rates(teams.items(), all_of_operator=True)

    def tasks(self, limit: int) -> OpenTasks:
        """Return at most `limit` open tasks, those with running work first, and the rate limits that they use."""
        tasks = self._monitor.tasks(limit)
        teams = self._teams.update(task.task_id for task in tasks)
        names = {task_id: team.name for task_id, team in teams.items()}
        return OpenTasks(tuple(tasks), names, tuple(self._monitor.rates(teams.items())))


class Operations:
    """Blocking calls. They raise TransientError, with the remedy, if a server does not answer or refuses its user."""

    def __init__(
        self,
        engine: Engine,
        queues: Callable[[], list[QueueStats]],
        rates: Callable[[], list[RateReport]],
        tasks: Callable[[int], OpenTasks],
    ) -> None:
        self._engine = engine
        self._queues = queues
        self._rates = rates
        self._tasks = tasks

    def overview(self) -> Overview:
        """Return the numbers of open tasks and dead letters."""
        tasks = self._engine.tasks
        return Overview(open_tasks=tasks.schedule.count(), dead_letters=tasks.dead_letters.count())

    def queues(self) -> list[QueueReport]:
        """Return each queue, and how long its oldest message waits. The clocks of two machines may differ."""
        now = datetime.now(UTC).timestamp()
        return [
            QueueReport(
                name=one.name,
                waiting=one.waiting,
                oldest_age=None if one.oldest is None else max(0.0, now - one.oldest),
            )
            for one in self._queues()
        ]

    def workers(self, limit: int) -> WorkersReport:
        """Return the pools, and at most `limit` workers of each, the last registration first."""
        workers, most = self._engine.services.workers, min(limit, MAX_WORKERS)
        found = {pool: workers.pool_status(pool, most) for pool in (*POOLS, DRAINING)}
        pools = [PoolReport(name=name, live=found[name].live, registered=found[name].registered) for name in POOLS]
        return WorkersReport(pools=pools, workers=_merged(found))

    def worker(self, name: str) -> WorkerReport | None:
        """Return the worker with this node name, or None if none has registered in 24 hours, or it has ended."""
        found = self._engine.services.workers.find(name)
        return None if found is None else _report(found, list(found.pools))

    def drain(self, name: str, timeout: float | None = None) -> WorkerReport:
        """Ask a live worker to drain, and return it: it takes no more work, ends with the work that it has, and exits.

        Work that has not ended after `timeout` seconds, by default its ROBOCO_DRAIN_TIMEOUT, is handed over to other
        workers. The worker sees the request within three seconds. A worker that drains already is returned.
        Raises NotFound if no live worker has this name.
        """
        found = self.worker(name)
        if found is None or not found.alive:
            silent = "" if found is None else f" for {found.silent_for:.0f} s"
            raise NotFound(f"no live worker {name[:200]!r}{silent}; `roboco workers` lists them")
        if not found.draining:
            self._engine.services.workers.request_drain(name, timeout)
        return found

    def rates(self) -> list[RateReport]:
        """Return the use of rate limits: the operator's, and those of the teams of some open tasks."""
        return self._rates()

    def tasks(self, limit: int) -> OpenTasks:
        """Return at most `limit` open tasks, those with running work first, and the rate limits that they use."""
        return self._tasks(limit)

    def stuck(self, limit: int = 200, cursor: str = "", **filters: Unpack[TaskFilterOptions]) -> StuckPage:
        """Return the stuck tasks among the next `limit` queued and running ones that meet the conditions.

        `until` is the time since which a task has not progressed. By default that is twice the time after which a lost
        lease is noticed and its work sent again. A page may be empty and have a cursor.
        """
        return _stuck_page(self._engine, self._queues, task_filter(None, filters), cursor, check_limit(limit))


def _stuck_page(
    engine: Engine, queues: Callable[[], Sequence[QueueStats]], wanted: TaskFilter, cursor: str, limit: int
) -> StuckPage:
    """Return the stuck tasks of a page of `limit` tasks. Raise UsageError if a condition or the cursor is wrong."""
    until = wanted.until or engine.now() - default_threshold(engine)
    statuses = STUCK_STATUSES if wanted.statuses == frozenset(TaskStatus) else wanted.statuses
    if other := sorted(statuses - STUCK_STATUSES):
        raise UsageError(f"status {other[0].value!r}: only queued and running tasks can be stuck")
    page = engine.tasks.task_index.page(replace(wanted, statuses=statuses, until=until), cursor, limit)
    known = _Queues(queues)
    found = [_stuck_task(engine, known, entry, until) for entry in page.entries]
    return StuckPage(tasks=[one for one in found if one is not None], cursor=page.cursor, complete=page.complete)


class _Queues:
    """The queues of the broker, read once a page, and only if a task needs them."""

    def __init__(self, read: Callable[[], Sequence[QueueStats]]) -> None:
        self._read = read
        self._found: dict[str, QueueStats] | None = None
        self._error = ""

    def describe(self, pool: str) -> str:
        """Return how many messages wait for the pool, or "" if none waits. Raise TransientError if that is unknown."""
        if self._error:
            raise TransientError(self._error)
        if self._found is None:
            try:
                self._found = {one.name: one for one in self._read()}
            except TransientError as error:
                self._error = str(error)
                raise
        found = self._found.get(f"roboco.{pool}")
        return "" if found is None else queue_description(found, pool)


def _stuck_task(engine: Engine, queues: _Queues, entry: TaskEntry, until: datetime) -> StuckTask | None:
    """Return the task with the cause, or None if it progresses, has not begun on purpose, or has changed since."""
    task = engine.tasks.task_store.load(entry.task_id, 1)
    progressed = entry.updated_at if task is None else max(entry.updated_at, task.steps.tail[-1].created_at)
    if progressed > until or (task is not None and not _should_progress(engine, task)):
        return None
    found = wait_cause(engine, entry.task_id, task, queue=queues.describe, patience=timedelta(0))
    if found is None:
        return None
    stuck_for = max(0.0, (engine.now() - progressed).total_seconds())
    text = log_text(found.text, MAX_CAUSE_CHARS)
    return StuckTask(
        task_id=entry.task_id, team=entry.team, status=entry.status, stuck_for=stuck_for, kind=found.kind, cause=text
    )


def _should_progress(engine: Engine, task: Snapshot) -> bool:
    if task.position.phase is not Phase.END and task.position.status not in STUCK_STATUSES:
        return False
    return start_time_of(task.steps.first.metadata, task.steps.first.created_at) <= engine.now()


def _merged(pools: dict[str, PoolStatus]) -> list[WorkerReport]:
    """Return each worker once, with all of its pools."""
    found: dict[str, WorkerReport] = {}
    for pool, status in pools.items():
        for one in status.workers:
            known = found.get(one.name)
            if pool != DRAINING:
                found[one.name] = _report(one, [*(known.pools if known else ()), pool])
            elif known is None or one.silent_for < known.silent_for:
                found[one.name] = _report(one, list(one.pools))
    return sorted(found.values(), key=lambda worker: (worker.silent_for, worker.name))


def _report(one: RegisteredWorker, pools: list[str]) -> WorkerReport:
    return WorkerReport(
        name=one.name,
        pools=pools,
        alive=one.silent_for <= LIVENESS_TIMEOUT,
        silent_for=one.silent_for,
        active=one.load.active,
        running=list(one.load.running),
        held=[_running_work(name, at) for name, at in zip_longest(one.load.running, one.load.since)],
        version=one.version,
        modules=list(one.modules),
        draining=one.drains_for is not None,
        drains_for=one.drains_for,
    )


def _running_work(name: str, since: float | None) -> RunningWork:
    """Return the Celery task with this id: `TASK/POSITION/turn/...`, `TASK/advance/...`, or of another producer."""
    task_id, *parts = name.split("/")
    kind = next((part for part in parts if part in WORK_KINDS), "")
    began = None if since is None else datetime.fromtimestamp(since, UTC)
    return RunningWork(id=name, task_id=task_id if kind else "", kind=kind, since=began)
