"""rebuild_index: rebuild the task index from the workspace, and remove old entries from it. Every coordinator calls it.

    lock ─► progress ─► page of task folders ─► summary of each task ─► entries ─► progress ─► next page, or complete
    (one at  (begin if   (cursor, 200)           (8 at a time)           (fenced)   (if it has not changed meanwhile)
    a time)   Redis is another one)

* The index is lost with Redis, and a restarted Redis may lack its last second. So each instance gets a rebuild.
* If a worker dies after any arrow, another one repeats the page. Entries are fenced, so a repetition is harmless.
* If Redis is emptied meanwhile, the progress is another one, and this worker stops.
* A task whose files are broken is left out. If the store fails, the page is repeated; after MAX_PAGE_RUNS, without the
  tasks that failed.
* An open task gets the entry of its last summary; the sweeper's pass over it brings the entry up to date.

Cost: one request to the workspace for each ended task, two for each open one, and one for each PAGE_SIZE folders.
"""

import logging
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

from roboco.domain.canonical_json import sha256
from roboco.domain.ids import is_task_id
from roboco.domain.paths import CLOSED, open_marker_path
from roboco.domain.task_entry import TaskEntry, entry_of
from roboco.engine.engine import Engine
from roboco.errors import CorruptHistory, TransientError
from roboco.ports.index_progress import Rebuild

_log = logging.getLogger(__name__)

PAGE_SIZE = 200
"""Task folders that are read between two records of the progress."""
PARALLEL_READS = 8
"""Tasks that are read at the same time."""
MAX_PAGE_RUNS = 3
"""Runs over a page, after which the tasks that cannot be read are left out."""
MAX_REMOVED = 1000
"""Old entries that are removed at a time."""


def rebuild_index(engine: Engine, seconds: float) -> int:
    """Continue the rebuild for about these seconds, and remove old entries. Return the number of tasks read.

    Return 0 if another worker has the lock, or if the index is complete. Raise TransientError if Redis or the workspace
    does not answer: the next call repeats the page.
    """
    if not engine.index_progress.lock(engine.new_token(), seconds):
        return 0
    rebuild, read, end = _current_rebuild(engine), 0, engine.clock.now() + seconds
    while rebuild is not None and not rebuild.complete and engine.clock.now() < end:
        before = rebuild.tasks_read
        rebuild = _read_page(engine, rebuild)
        read += 0 if rebuild is None else rebuild.tasks_read - before
    engine.task_index.trim(
        engine.now() - timedelta(seconds=engine.policy.index_retention), engine.policy.max_indexed_ended, MAX_REMOVED
    )
    return read


def _current_rebuild(engine: Engine) -> Rebuild | None:
    """Return the rebuild of this instance of Redis. Begin one if there is none."""
    now, instance_id = engine.index_progress.load(), engine.schedule.instance_id()
    if now is not None and now.instance_id == instance_id:
        return now
    begun = Rebuild(uuid.uuid4().hex, instance_id)
    _log.info("the task index is rebuilt from the workspace")
    return begun if engine.index_progress.save(now, begun) else None


def _read_page(engine: Engine, rebuild: Rebuild) -> Rebuild | None:
    """Enter the tasks of the next page. Return the progress, or None if another worker has changed it."""
    runs = f"index:{rebuild.rebuild_id}:{sha256(rebuild.after)[:16]}"
    leaves_out = engine.attempts.start_without_lease(runs) + 1 >= MAX_PAGE_RUNS
    folders = engine.files.folders(rebuild.after, PAGE_SIZE)
    tasks = [name for name in folders.names if is_task_id(name)]
    with ThreadPoolExecutor(PARALLEL_READS, thread_name_prefix="roboco-index") as threads:
        entries = list(threads.map(partial(_entry_or_none, engine, leaves_out), tasks))
    engine.attempts.finish(runs)
    oldest = engine.now() - timedelta(seconds=engine.policy.index_retention)
    engine.task_index.put([entry for entry in entries if entry is not None and not _is_old(entry, oldest)])
    after = replace(
        rebuild,
        after=folders.cursor,
        tasks_read=rebuild.tasks_read + len(tasks),
        complete=not folders.cursor,
    )
    is_saved = engine.index_progress.save(rebuild, after)
    if is_saved and after.complete:
        _log.info("the task index is complete: %d tasks were read", after.tasks_read)
    return after if is_saved else None


def _entry_or_none(engine: Engine, leaves_out: bool, task_id: str) -> TaskEntry | None:
    """Return the entry of the task, or None if it was never accepted or its files are broken.

    Raise TransientError if the workspace does not answer, unless such tasks are left out.
    """
    try:
        return _read_entry(engine, task_id)
    except TransientError as error:
        if not leaves_out:
            raise
        _log.warning("task %s is left out of the task index: %s", task_id, error)
    except CorruptHistory as error:
        _log.warning("task %s is left out of the task index: %s", task_id, error)
    except Exception:  # a task that cannot be read must not block the others
        _log.exception("task %s is left out of the task index", task_id)
    return None


def _read_entry(engine: Engine, task_id: str) -> TaskEntry | None:
    summary = engine.summaries.get(task_id)
    if summary is None:
        return None
    if not summary.status.ended and engine.files.get(open_marker_path(task_id)) in (None, CLOSED):
        summary = engine.summaries.get(task_id)  # it ended since the first read, or was never accepted
        if summary is None or not summary.status.ended:
            return None
    return entry_of(summary)


def _is_old(entry: TaskEntry, oldest: datetime) -> bool:
    return entry.status.ended and entry.updated_at < oldest
