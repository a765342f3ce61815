"""rebuild_index: rebuild the task index from the workspace, and remove old entries from it. Every coordinator calls it.

    lock ─► progress ─► page of task folders ─► summary of each task ─► entries ─► progress ─► next page, or complete
    (one at  (begin if   (cursor, 200)           (8 at a time)           (fenced,   (if it has not changed meanwhile)
    a time)   Redis is another one)                                       old ones removed)

* The index is lost with Redis, and a restarted Redis may lack its last second. So each instance gets a rebuild.
* If a worker dies after any arrow, another one repeats the page. Entries are fenced, so a repetition is harmless.
* If Redis is emptied meanwhile, the progress is another one, and this worker stops.
* A task whose files are broken is left out. Tasks that the store does not return are left out until the last page, and
  then read again in each run; the index is not complete before. If there are more of them than MAX_LEFT_OUT, the store
  fails, and the page is repeated.
* If the store refuses the cursor, because it has expired, the rebuild begins again with the first page.
* An open task gets the entry of its last summary; the sweeper's pass over it brings the entry up to date.

Cost: one request to the workspace for each ended task, two for each open one, and one for each PAGE_SIZE folders.
"""

import logging
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from roboco.domain.ids import is_task_id
from roboco.domain.paths import CLOSED, open_marker_path
from roboco.domain.task_entry import TaskEntry
from roboco.domain.task_summary import entry_of
from roboco.engine.engine import Engine, TaskStores, WorkspaceRecords
from roboco.errors import CorruptHistory, TransientError
from roboco.ports.task_index import Rebuild

_log = logging.getLogger(__name__)

PAGE_SIZE = 200
"""Task folders that are read between two records of the progress."""
PARALLEL_READS = 8
"""Tasks that are read at the same time."""
MAX_LEFT_OUT = 20
"""Tasks that are left out because they cannot be read. If there are more, the page is repeated."""
MAX_REMOVED = 1000
"""Old entries that are removed at a time."""


def rebuild_index(engine: Engine, seconds: float) -> int:
    """Continue the rebuild for about these seconds, and remove old entries. Return the number of tasks read.

    Return 0 if another worker has the lock, or if the index is complete. Raise TransientError if Redis or the workspace
    does not answer: the next call repeats the page.
    """
    if not engine.tasks.task_index.lock_scan(Rebuild, engine.new_token(), seconds):
        return 0
    rebuild, read, end = _current_rebuild(engine.tasks), 0, engine.clock.now() + seconds
    _remove_old(engine, end)
    while rebuild is not None and not rebuild.complete and engine.clock.now() < end:
        before = rebuild.tasks_read
        rebuild = _read_page(engine, rebuild)
        read += 0 if rebuild is None else max(0, rebuild.tasks_read - before)
        _remove_old(engine, end)
    return read


def _remove_old(engine: Engine, end: float) -> None:
    """Remove old entries until none is left, or until this time. After each page, so that memory stays bounded."""
    oldest, limit = _oldest_end(engine), engine.policy.max_indexed_ended
    while engine.tasks.task_index.trim(oldest, limit, MAX_REMOVED) == MAX_REMOVED and engine.clock.now() < end:
        pass


def _current_rebuild(tasks: TaskStores) -> Rebuild | None:
    """Return the rebuild of this instance of Redis. Begin one if there is none."""
    now = tasks.task_index.load_scan(Rebuild)
    if now is not None and tasks.schedule.is_instance(now.instance_id):
        return now
    begun = Rebuild(uuid.uuid4().hex, tasks.schedule.instance_id())
    _log.info("the task index is rebuilt from the workspace")
    return begun if tasks.task_index.save_scan(now, begun) else None


def _read_page(engine: Engine, rebuild: Rebuild) -> Rebuild | None:
    """Enter the tasks of the next page, or after the last page those that were left out.

    Return the progress, or None if another worker has changed it, or if tasks that were left out still cannot be read.
    """
    if rebuild.all_listed:
        reading = _enter(engine, rebuild.left_out)
        after = replace(rebuild, left_out=tuple(reading.failed))
    elif (folders := engine.workspace.files.folders(rebuild.after, PAGE_SIZE)) is None:
        _log.warning("the workspace refuses the cursor of its folders; the rebuild of the task index begins again")
        after = replace(rebuild, after="", tasks_read=0, left_out=())
    else:
        tasks = [name for name in folders.names if is_task_id(name)]
        reading = _enter(engine, tasks, len(rebuild.left_out))
        after = replace(
            rebuild,
            after=folders.cursor,
            tasks_read=rebuild.tasks_read + len(tasks),
            all_listed=not folders.cursor,
            left_out=(*rebuild.left_out, *reading.failed),
        )
    if not engine.tasks.task_index.save_scan(rebuild, after):
        return None
    if after.complete:
        _log.info("the task index is complete: %d tasks were read", after.tasks_read)
    return None if rebuild.all_listed and after.left_out else after


@dataclass
class _Reading:
    """A reading of tasks by many threads. `failed` are the tasks for which the workspace did not answer."""

    engine: Engine
    max_failed: int
    failed: list[str] = field(default_factory=list)

    def entry_or_none(self, task_id: str) -> TaskEntry | None:
        """Return the entry of the task, or None if it has failed, was never accepted, or its files are broken.

        Raise TransientError if too many tasks have failed: then the workspace does not answer at all.
        """
        try:
            return _read_entry(self.engine.workspace, task_id)
        except TransientError as error:
            if len(self.failed) >= self.max_failed:
                raise
            self.failed.append(task_id)
            _log.warning("task %s is left out of the task index until it can be read: %s", task_id, error)
        except CorruptHistory as error:
            _log.warning("task %s is left out of the task index: %s", task_id, error)
        except Exception:  # a task that cannot be read must not block the others
            _log.exception("task %s is left out of the task index", task_id)
        return None


def _enter(engine: Engine, tasks: Sequence[str], left_out: int = 0) -> _Reading:
    """Enter the tasks. `left_out` is the number of tasks that are left out already."""
    reading = _Reading(engine, MAX_LEFT_OUT - left_out)
    with ThreadPoolExecutor(PARALLEL_READS, thread_name_prefix="roboco-index") as threads:
        entries = list(threads.map(reading.entry_or_none, tasks))
    oldest = _oldest_end(engine)
    engine.tasks.task_index.put([entry for entry in entries if entry is not None and not _is_old(entry, oldest)])
    return reading


def _read_entry(workspace: WorkspaceRecords, task_id: str) -> TaskEntry | None:
    summary = workspace.summaries.get(task_id)
    if summary is None:
        return None
    if not summary.status.ended and workspace.files.get(open_marker_path(task_id)) in (None, CLOSED):
        summary = workspace.summaries.get(task_id)  # it ended since the first read, or was never accepted
        if summary is None or not summary.status.ended:
            return None
    return entry_of(summary)


def _is_old(entry: TaskEntry, oldest: datetime) -> bool:
    return entry.status.ended and entry.updated_at < oldest


def _oldest_end(engine: Engine) -> datetime:
    """Return the time before which an ended task is not listed any more."""
    return engine.now() - timedelta(seconds=engine.policy.index_retention)
