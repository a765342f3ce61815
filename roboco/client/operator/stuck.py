"""stuck: the tasks that should progress and do not, each with the cause.

    page of queued and running tasks ─► each task's state ─► no step for long, no worker at work ─► cause
    (Redis is silent: raised)            (gone: a cause)      (else: left out)                       │
    registrations of workers (cached for 5 s), queues (once a page; silent broker: the cause says so)┘

Cost: one read of the index and one of the broker's queues for each page, and one read of Redis for each task of the
page. The workspace is not read, so that a list is possible while it is slow. Nothing is written.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from roboco.broker.queue_stats import QueueStats, queue_description
from roboco.domain.history.step import start_time_of
from roboco.domain.log_text import log_text
from roboco.domain.schema import RecordModel
from roboco.domain.status import TaskStatus
from roboco.domain.task_entry import TaskEntry
from roboco.domain.task_filter import TaskFilter
from roboco.engine.accept.wait_cause import Kind, default_threshold, wait_cause
from roboco.engine.engine import Engine
from roboco.errors import TransientError, UsageError
from roboco.ports.task_store import Phase, Snapshot

STATUSES: Final = frozenset({TaskStatus.QUEUED, TaskStatus.RUNNING})
"""The statuses in which a task should progress by itself."""
MAX_CAUSE_CHARS: Final = 600
"""Characters of a cause at most."""


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


def stuck_page(
    engine: Engine, queues: Callable[[], Sequence[QueueStats]], wanted: TaskFilter, cursor: str, limit: int
) -> StuckPage:
    """Return the stuck tasks of a page of `limit` tasks. Raise UsageError if a condition or the cursor is wrong."""
    until = wanted.until or engine.now() - default_threshold(engine)
    statuses = STATUSES if wanted.statuses == frozenset(TaskStatus) else wanted.statuses
    if other := sorted(statuses - STATUSES):
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
    if task.position.phase is not Phase.END and task.position.status not in STATUSES:
        return False
    return start_time_of(task.steps.first.metadata, task.steps.first.created_at) <= engine.now()
