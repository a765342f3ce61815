"""event_archive: keep the event log of a task short, with the older events in its workspace.

    log in Redis ─► segment in the workspace ─► trim the log ─► ... ─► events.jsonl ─► no segments
    (xrange)        (create)                    (fenced)               (replace)       (delete)

Each arrow may happen twice, late or never, and the worker may die at each:

* A segment is created once. Two workers that archive at the same time read the same log; the slower one finds the
  segment and compares it with its events. If the segment is not the beginning of these, it does not trim.
* The trim names the first event that the worker has read. So a second or a late one changes nothing.
* If Redis is emptied, or set back, before the trim: a rebuilt task has a new generation, and in an old log the trimmed
  events appear again. Readers take each number once.
* The segments are merged into `events.jsonl` at growing intervals, and at the end, and then deleted. If the worker dies
  in between, they have the same events as the file, and the next merge deletes them. A slow worker may store a segment
  after the last merge: its events are in the file too.

A segment costs four requests to the workspace: it is created, and later listed (with up to 999 others), read and
deleted. A task that runs with short steps fills it with up to 256 events. A task with large steps stores a segment for
each 72 KB of events, and a chat one for each of its turns. No event is written more than a few times, so the written
bytes stay proportional to the history.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from roboco.domain.paths import event_segment_path, event_segments_path, events_path
from roboco.domain.stream.event_file import merged_log, place_of, segment_places, to_stored
from roboco.engine.engine import Engine, TaskStores, WorkspaceRecords
from roboco.engine.retry import RETRY_DELAYS, contention_error
from roboco.ports.logs import LogTrim
from roboco.ports.snapshot import Snapshot
from roboco.ports.workspace import VersionedFile

_Result = TypeVar("_Result")

PARALLEL_REQUESTS = 16
"""Segments that are read, or deleted, in parallel: a task of 10,000 steps has some 300 of them."""
MAX_SEQUENTIAL = 8
"""Segments that are read one after the other, without threads."""


def is_log_full(engine: Engine, task: Snapshot) -> bool:
    """Return True if the event log of a running task is due to be archived. Costs nothing."""
    limits = engine.policy.log_limits
    return task.logs.events - task.logs.first_event >= limits.max_events or task.logs.event_bytes > limits.max_bytes


def archive_running(engine: Engine, task_id: str, task: Snapshot) -> None:
    """Archive the log of a task that runs, if it is full, and keep its newest events for followers."""
    limits = engine.policy.log_limits
    if is_log_full(engine, task):
        _archive(engine, task_id, task, _Kept(limits.kept_events, limits.kept_bytes), merge=False)


def archive_waiting(engine: Engine, task_id: str, task: Snapshot, merge: bool) -> None:
    """Archive the log of a task that waits, and keep its last event only: the task may wait for long.

    With `merge`, also merge the segments into `events.jsonl`.
    """
    if merge or task.logs.event_bytes > engine.policy.log_limits.waiting_bytes:
        _archive(engine, task_id, task, _Kept(1, 0, task.logs.chunks + 1), merge)


def write_events(engine: Engine, task_id: str) -> bytes:
    """Merge the segments and the log into `events.jsonl`. Return the file.

    Events move from the log to a segment, and from there to the file, also during this call. So it reads in that order.
    What the log has first is not missed if it is trimmed meanwhile; if it is merged, the file has changed, and the
    merge is repeated. If there are segments, the log is read again at the end, because it has to be as new as they are.
    """
    folder = event_segments_path(task_id)
    for delay in RETRY_DELAYS:
        stored = engine.workspace.files.get_versioned(events_path(task_id))
        log = _log_lines(engine.tasks, task_id)
        segments, paths = list[bytes](), list[str]()
        if places := segment_places(engine.workspace.files.names(folder)):
            paths = [event_segment_path(task_id, *place) for place in places]
            segments = [*(data or b"" for data in _in_parallel(engine.workspace.files.get, paths)), b"\n".join(log)]
            log = _log_lines(engine.tasks, task_id)
        before = b"" if stored is None else stored.data
        data = merged_log(before, segments, log)
        if data is None or engine.workspace.files.replace(events_path(task_id), data, version_of(stored)):
            _in_parallel(engine.workspace.files.delete, paths)
            return before if data is None else data
        engine.clock.sleep(delay)
    raise contention_error(events_path(task_id))


def _log_lines(tasks: TaskStores, task_id: str) -> list[bytes]:
    return [to_stored(message) for message in tasks.event_logs.events(task_id, 0)]


def _in_parallel(call: Callable[[str], _Result], paths: Sequence[str]) -> list[_Result]:
    """Return the results of the call for each path, in order. Raise the error of the first one that fails."""
    if len(paths) <= MAX_SEQUENTIAL:
        return [call(path) for path in paths]
    pool = ThreadPoolExecutor(min(PARALLEL_REQUESTS, len(paths)), thread_name_prefix="roboco-events")
    try:
        return list(pool.map(call, paths))
    finally:
        pool.shutdown(wait=False, cancel_futures=True)  # a time limit may have ended the wait


def version_of(stored: VersionedFile | None) -> str | None:
    """Return the version of a file, or None if there is no file."""
    return None if stored is None else stored.version


@dataclass(frozen=True)
class _Kept:
    """The messages that a trim keeps: the last event in any case, and newer ones than these bounds."""

    events: int
    size: int
    chunks_from: int = 0


def _archive(engine: Engine, task_id: str, task: Snapshot, kept: _Kept, merge: bool) -> None:
    """Store the events of the log, and trim it. Do nothing if the log is not the one of the snapshot any more."""
    messages = list(engine.tasks.event_logs.events(task_id, task.logs.first_event - 1))
    lines = [to_stored(message) for message in messages]
    ends = {place_of(line) for line in (*lines[:1], *lines[-1:])}
    last = task.logs.first_event + len(lines) - 1
    if ends != {(task.logs.generation, task.logs.first_event), (task.logs.generation, last)}:
        return
    new = lines[max(0, task.logs.archived_event + 1 - task.logs.first_event) :]
    if merge:
        extended = _extend_file(engine.workspace, task_id, task, new)
        known = extended if extended is not None else write_events(engine, task_id)
        stored = _count_common(new, set(known.splitlines()))
    else:
        stored = _store_segment(engine.workspace, task_id, task, new)
    archived = task.logs.archived_event + stored
    keep_from = _first_kept(task, messages, archived, kept)
    removed = sum(len(message) for message in messages[: keep_from - task.logs.first_event])
    if stored or removed or kept.chunks_from:
        trim = LogTrim(task.logs.generation, task.logs.first_event, archived, keep_from, removed, kept.chunks_from)
        engine.tasks.event_logs.trim(task_id, trim)


def _extend_file(workspace: WorkspaceRecords, task_id: str, task: Snapshot, new: Sequence[bytes]) -> bytes | None:
    """Append the lines to `events.jsonl` if its last line is the last archived event. Return the file, or None if not.

    Then no segment holds an event that the file lacks, so a LIST of the segments is not needed. A segment that a slow
    worker stores late remains until the next merge with a LIST, at the end at the latest.
    """
    if not task.logs.archived_event or not new:
        return None
    stored = workspace.files.get_versioned(events_path(task_id))
    lines = [] if stored is None else stored.data.splitlines()
    if stored is None or not lines or place_of(lines[-1]) != (task.logs.generation, task.logs.archived_event):
        return None
    data = stored.data + b"".join(line + b"\n" for line in new)
    return data if workspace.files.replace(events_path(task_id), data, stored.version) else None


def _store_segment(workspace: WorkspaceRecords, task_id: str, task: Snapshot, new: Sequence[bytes]) -> int:
    """Store the lines as a segment. Return the number of them that the workspace has now."""
    if not new:
        return 0
    path = event_segment_path(task_id, task.logs.generation, task.logs.archived_event + 1)
    if workspace.files.create(path, b"".join(line + b"\n" for line in new)):
        return len(new)
    found = (workspace.files.get(path) or b"").splitlines()
    return len(found) if found == list(new[: len(found)]) else 0


def _count_common(lines: Sequence[bytes], stored: set[bytes]) -> int:
    """Return the number of the first lines that are stored."""
    return next((index for index, line in enumerate(lines) if line not in stored), len(lines))


def _first_kept(task: Snapshot, messages: Sequence[bytes], archived: int, kept: _Kept) -> int:
    """Return the number of the first event to keep: at most the one after the archived ones, at least the last one."""
    size = 0
    first = task.logs.first_event + len(messages) - 1
    for message in reversed(messages[:-1]):
        size += len(message)
        if task.logs.first_event + len(messages) - first >= kept.events or size > kept.size:
            break
        first -= 1
    return max(task.logs.first_event, min(first, archived + 1))
