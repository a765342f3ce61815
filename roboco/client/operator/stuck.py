"""stuck: the tasks that should progress and do not, each with the cause.

    page of queued and running tasks ─► each task's state ─► no step for long, no worker at work ─► cause
    (Redis is silent: raised)            (gone: a cause)      (else: left out)                       │
    registrations of workers (cached for 5 s), queues (once a page; silent broker: the cause says so)┘

Cost: one read of the index and one of the broker's queues for each page, and one read of Redis for each task of the
page. The workspace is not read, so that a list is possible while it is slow. Nothing is written.
"""

import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

from roboco.adapters.celery.queue_stats import QueueStats
from roboco.domain.history.start_time import start_time_of
from roboco.domain.log_text import log_text
from roboco.domain.rate_report import NEXT_ATTEMPT, RATE_WAIT
from roboco.domain.schema import RecordModel
from roboco.domain.status import TaskStatus
from roboco.domain.switch import SWITCHED_OFF, check_target
from roboco.domain.task_entry import TaskEntry
from roboco.domain.task_filter import TaskFilter
from roboco.domain.tenant_budget import BUDGET_WAIT
from roboco.engine.engine import Engine
from roboco.engine.intake.unattended import awaited_pool, missing_worker_message
from roboco.errors import TransientError, UsageError
from roboco.ports.registry import COORDINATOR
from roboco.ports.task_store import Phase, Snapshot

STATUSES: Final = frozenset({TaskStatus.QUEUED, TaskStatus.RUNNING})
"""The statuses in which a task should progress by itself."""
MAX_CAUSE_CHARS: Final = 600
"""Characters of a cause at most."""
Kind = Literal[
    "no_worker",
    "no_state",
    "provider_outage",
    "rate_limit",
    "budget",
    "switched_off",
    "declined",
    "lost_attempts",
    "queue",
    "deferred",
    "unknown",
]


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


def default_threshold(engine: Engine) -> timedelta:
    """Return the time without progress after which a task counts as stuck: longer than a lost worker delays it."""
    return timedelta(seconds=2 * (engine.policy.lease + engine.policy.redelivery_delay))


def stuck_page(
    engine: Engine, queues: Callable[[], Sequence[QueueStats]], wanted: TaskFilter, cursor: str, limit: int
) -> StuckPage:
    """Return the stuck tasks of a page of `limit` tasks. Raise UsageError if a condition or the cursor is wrong."""
    until = wanted.until or engine.now() - default_threshold(engine)
    statuses = STATUSES if wanted.statuses == frozenset(TaskStatus) else wanted.statuses
    if other := sorted(statuses - STATUSES):
        raise UsageError(f"status {other[0].value!r}: only queued and running tasks can be stuck")
    page = engine.task_index.page(replace(wanted, statuses=statuses, until=until), cursor, limit)
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
        queue = self._found.get(f"roboco.{pool}")
        if queue is None or not queue.waiting:
            return ""
        age = "" if queue.oldest is None else f", the oldest for {_seconds_since(queue.oldest):.0f} s"
        return f"{queue.waiting} messages wait in {queue.name}{age}: add {pool} workers"


def _stuck_task(engine: Engine, queues: _Queues, entry: TaskEntry, until: datetime) -> StuckTask | None:
    """Return the task with the cause, or None if it progresses, has not begun on purpose, or has changed since."""
    task = engine.task_store.load(entry.task_id, 1)
    progressed = entry.updated_at if task is None else max(entry.updated_at, task.tail[-1].created_at)
    if progressed > until or (task is not None and not _should_progress(engine, task)):
        return None
    found = _cause(engine, queues, entry.task_id, task)
    if found is None:
        return None
    kind, cause = found
    stuck_for = max(0.0, (engine.now() - progressed).total_seconds())
    text = log_text(cause, MAX_CAUSE_CHARS)
    return StuckTask(
        task_id=entry.task_id, team=entry.team, status=entry.status, stuck_for=stuck_for, kind=kind, cause=text
    )


def _should_progress(engine: Engine, task: Snapshot) -> bool:
    if task.phase is not Phase.END and task.status not in STATUSES:
        return False
    return start_time_of(task.first.metadata, task.first.created_at) <= engine.now()


def _cause(engine: Engine, queues: _Queues, task_id: str, task: Snapshot | None) -> tuple[Kind, str] | None:
    """Return why the task does not progress, or None if a worker or a sub-task is at work for it."""
    pool = awaited_pool(engine, task_id, task)
    if not pool:
        return None if task is None or not _is_losing(task) else ("lost_attempts", _attempts(task))
    if missing := missing_worker_message(engine, pool):
        return "no_worker", missing
    if task is None:
        return "no_state", "Redis does not have the task: a coordinator restores it from the workspace in some minutes"
    if target := _switched_off_target(task.reason):
        return "switched_off", f"{task.reason}; on again: roboco switch on {shlex.quote(target)}"
    if task.phase is Phase.TURN and task.deferred_for is not None:
        return _deferral(task)
    if task.declined.count:
        workers = ", ".join(task.declined.workers)
        return (
            "declined",
            f"workers declined its turn {task.declined.count} times, because they cannot run it: {workers}",
        )
    if _is_losing(task):
        return "lost_attempts", _attempts(task)
    return _waiting_in_queue(queues, pool, task)


def _switched_off_target(reason: str) -> str:
    """Return the target of the switch that the reason names, or "". Errors of model servers may hold any text."""
    target, found, _ = reason.partition(SWITCHED_OFF)
    try:
        return check_target(target) if found else ""
    except UsageError:
        return ""


def _deferral(task: Snapshot) -> tuple[Kind, str]:
    again = f"{task.reason.partition(NEXT_ATTEMPT)[0]}{NEXT_ATTEMPT}{task.deferred_for or 0:.0f} s"
    if task.declined.count:
        return "declined", again
    refused = f"; the model server has refused it {task.refusals} times in {task.refused_for:.0f} s"
    if BUDGET_WAIT in task.reason:
        return "budget", again
    if RATE_WAIT in task.reason:
        return "rate_limit", again + (refused if task.refusals else "")
    return ("provider_outage", again + refused) if task.refusals else ("deferred", again)


def _waiting_in_queue(queues: _Queues, pool: str, task: Snapshot) -> tuple[Kind, str]:
    sent = f"its work was sent to {pool} workers {_seconds_since(task.dispatched_at):.0f} s ago, and sent again "
    sent += f"{task.redeliveries} times"
    try:
        if waiting := queues.describe(pool):
            return "queue", waiting
    except TransientError as error:
        return "unknown", f"{sent}; the queues are not known: {error}"
    remedy = "see the logs of coordinators" if pool == COORDINATOR else f"see the logs of {pool} workers"
    return "unknown", f"{sent}; {remedy}, and roboco why"


def _is_losing(task: Snapshot) -> bool:
    """Return True if workers have lost attempts at the pending turn or at one of its calls."""
    return (task.phase is Phase.TURN and task.attempt > 1) or _lost_calls(task) > 0


def _lost_calls(task: Snapshot) -> int:
    calls = task.calls.values() if task.phase is Phase.TOOLS else ()
    return sum(state.attempt - 1 for state in calls if state.outcome is None)


def _attempts(task: Snapshot) -> str:
    """Return the history of the leases of the pending work."""
    if task.phase is Phase.TURN:
        who, lost = f"the turn of {task.agent}", task.attempt - 1
    else:
        who, lost = "its tool calls", _lost_calls(task)
    left = f"a worker has it, its lease ends in {task.lease_left:.0f} s" if task.lease_left > 0 else "no worker has it"
    return f"attempts at {who} that workers lost: {lost}; messages sent again: {task.redeliveries}; {left}"


def _seconds_since(unix_seconds: float) -> float:
    return max(0.0, datetime.now(UTC).timestamp() - unix_seconds)
