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
  in between, they have the same events as the file, and the next merge deletes them.

A segment costs one request to the workspace. It has the events of many steps, so this adds little to the request for
each step. No event is written more than a few times, so the written bytes stay proportional to the history.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from roboco.domain.paths import event_segment_path, event_segments_path, events_path
from roboco.domain.stream.event_file import merged_log, place_of, segment_place, to_stored
from roboco.engine.engine import Engine
from roboco.errors import TransientError
from roboco.ports.logs import LogTrim
from roboco.ports.task_store import Snapshot
from roboco.ports.workspace import VersionedFile

RETRY_DELAYS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Seconds after each attempt to replace a file that another worker has written meanwhile."""


def is_log_full(engine: Engine, task: Snapshot) -> bool:
    """Return True if the event log of a running task is due to be archived. Costs nothing."""
    limits = engine.policy.log_limits
    return task.events - task.first_event >= limits.max_events or task.event_bytes > limits.max_bytes


def archive_running(engine: Engine, task_id: str, task: Snapshot) -> None:
    """Archive the log of a task that runs, if it is full, and keep its newest events for followers."""
    limits = engine.policy.log_limits
    if is_log_full(engine, task):
        _archive(engine, task_id, task, _Kept(limits.kept_events, limits.kept_bytes), merge=False)


def archive_waiting(engine: Engine, task_id: str, task: Snapshot, merge: bool) -> None:
    """Archive the log of a task that waits, and keep its last event only: the task may wait for long.

    With `merge`, also merge the segments into `events.jsonl`.
    """
    if merge or task.event_bytes > engine.policy.log_limits.waiting_bytes:
        _archive(engine, task_id, task, _Kept(1, 0, task.chunks + 1), merge)


def write_events(engine: Engine, task_id: str) -> bytes:
    """Merge the segments and the log into `events.jsonl`. Return the file.

    Read the file before the log, and replace it only if it is unchanged: so no late write removes newer events.
    """
    folder = event_segments_path(task_id)
    for delay in RETRY_DELAYS:
        stored = engine.files.get_versioned(events_path(task_id))
        names = sorted(engine.files.names(folder), key=segment_place)
        segments = [engine.files.get(folder + name) or b"" for name in names]
        log = [to_stored(line) for line in engine.event_logs.events(task_id, 0)]
        before = b"" if stored is None else stored.data
        data = merged_log(before, segments, log)
        if data is None or engine.files.replace(events_path(task_id), data, version_of(stored)):
            for name in names:
                engine.files.delete(folder + name)
            return before if data is None else data
        engine.clock.sleep(delay)
    raise contention_error(events_path(task_id))


def version_of(stored: VersionedFile | None) -> str | None:
    """Return the version of a file, or None if there is no file."""
    return None if stored is None else stored.version


def contention_error(path: str) -> TransientError:
    """Return the error of a file that other workers have changed at each attempt to replace it."""
    return TransientError(f"other workers keep changing {path!r}; the write is retried")


@dataclass(frozen=True)
class _Kept:
    """The messages that a trim keeps: the last event in any case, and newer ones than these bounds."""

    events: int
    size: int
    chunks_from: int = 0


def _archive(engine: Engine, task_id: str, task: Snapshot, kept: _Kept, merge: bool) -> None:
    """Store the events of the log, and trim it. Do nothing if the log is not the one of the snapshot any more."""
    messages = list(engine.event_logs.events(task_id, task.first_event - 1))
    lines = [to_stored(message) for message in messages]
    ends = {place_of(line) for line in (*lines[:1], *lines[-1:])}
    last = task.first_event + len(lines) - 1
    if ends != {(task.generation, task.first_event), (task.generation, last)}:
        return
    new = lines[max(0, task.archived_event + 1 - task.first_event) :]
    if merge:
        stored = _count_common(new, set(write_events(engine, task_id).splitlines()))
    else:
        stored = _store_segment(engine, task_id, task, new)
    archived = task.archived_event + stored
    keep_from = _first_kept(task, messages, archived, kept)
    removed = sum(len(message) for message in messages[: keep_from - task.first_event])
    if stored or removed or kept.chunks_from:
        trim = LogTrim(task.generation, task.first_event, archived, keep_from, removed, kept.chunks_from)
        engine.event_logs.trim(task_id, trim)


def _store_segment(engine: Engine, task_id: str, task: Snapshot, new: Sequence[bytes]) -> int:
    """Store the lines as a segment. Return the number of them that the workspace has now."""
    if not new:
        return 0
    path = event_segment_path(task_id, task.generation, task.archived_event + 1)
    if engine.files.create(path, b"".join(line + b"\n" for line in new)):
        return len(new)
    found = (engine.files.get(path) or b"").splitlines()
    return len(found) if found == list(new[: len(found)]) else 0


def _count_common(lines: Sequence[bytes], stored: set[bytes]) -> int:
    """Return the number of the first lines that are stored."""
    return next((index for index, line in enumerate(lines) if line not in stored), len(lines))


def _first_kept(task: Snapshot, messages: Sequence[bytes], archived: int, kept: _Kept) -> int:
    """Return the number of the first event to keep: at most the one after the archived ones, at least the last one."""
    size = 0
    first = task.first_event + len(messages) - 1
    for message in reversed(messages[:-1]):
        size += len(message)
        if task.first_event + len(messages) - first >= kept.events or size > kept.size:
            break
        first -= 1
    return max(task.first_event, min(first, archived + 1))
