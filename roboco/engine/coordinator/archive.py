"""archive: write a task's summary and events to its workspace, and close the task when it has ended.

    compact ─► events.jsonl ─► marker: closing ─► end in Redis? ─► marker: closed ─► task.json ─► parent, notifications
               (replace)       (replace)          (load; no: reopen) (replace)       (replace)    ─► no marker

Both files are derived data. A worker replaces a file only if no other worker has written it since the read, and only
with newer content, so that neither goes backwards.

If the worker dies before the marker is closed, the task is open, and the next pass repeats the whole. If it dies after
that, the end is final, and the next pass writes the rest. The marker is deleted last: until then the sweeper
repeats the pass.
"""

from collections import deque

from roboco.domain.paths import CLOSED, closing, events_path, history_path, open_path, summary_path
from roboco.domain.stream.event_file import as_stored, extended
from roboco.domain.task_summary import TaskSummary, read_summary
from roboco.engine import notifications as notify
from roboco.engine.coordinator import delegate
from roboco.engine.engine import Engine
from roboco.engine.record import recover
from roboco.errors import TransientError
from roboco.ports import Phase, Snapshot, Versioned

FIRST_FOLD = 16
_PAUSES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Seconds after each attempt to replace a file that another worker has written meanwhile."""


def fold_due(seq: int) -> bool:
    """Return True if the history is compacted after the step at this position: after 16 steps, 256, 4096, and so on.

    On S3 each step is stored as a segment object. Compaction merges the segments into one file. With these positions a
    step is written once as a segment, 1/15 times on average by compactions on the way, and once when the task ends.
    Readers fetch many segments in parallel, so a long tail of segments is cheap.
    """
    return _due(seq, FIRST_FOLD)


def _due(seq: int, factor: int) -> bool:
    point = FIRST_FOLD
    while point < seq + 1:
        point *= factor
    return point == seq + 1


def archive(engine: Engine, task_id: str, task: Snapshot) -> None:
    """Write the summary of a waiting task and, if the history has grown enough, its events. A repetition is harmless.

    If another worker has ended the task since, change nothing.
    """
    summary = _summary(engine, task_id, task)
    stored = engine.files.get(summary_path(task_id))
    before = None if stored is None else read_summary(stored)
    if before is not None and not summary.follows(before):
        return
    archived = 0 if before is None else before.steps
    if any(_due(seq, 2) or seq < FIRST_FOLD for seq in range(archived, task.seq)):
        _write_events(engine, task_id)
    _write_summary(engine, summary)


def finish(engine: Engine, task_id: str, task: Snapshot, marker: Versioned) -> bool:
    """Close an ended task: complete its workspace, and let Redis expire it. A repetition is harmless.

    Return False, and leave the task open, if Redis has lost its end or another worker changed the marker.
    """
    _gather(engine, task_id)
    _write_events(engine, task_id)
    if marker.data != CLOSED and not _close(engine, task_id, task.epoch, marker):
        return False
    summary = _summary(engine, task_id, task)
    _write_summary(engine, summary)
    delegate.report(engine, task_id, task)
    notify.tell(engine, task_id, task)
    engine.files.delete(open_path(task_id))
    leave(engine, task_id, task.generation)
    engine.telemetry.ended(summary)
    return True


def close_again(engine: Engine, task_id: str, task: Snapshot) -> None:
    """Let Redis expire a closed task whose end was decided again, after writing the events of its new generation.

    If the sweeper has not started that generation yet, schedule a pass: the sweeper does that first.
    """
    _write_events(engine, task_id)
    if engine.schedule.recovered(task_id):
        leave(engine, task_id, task.generation)
    else:
        engine.schedule.put(task_id)


def leave(engine: Engine, task_id: str, generation: str) -> None:
    """Let Redis expire a closed task after the retention time.

    Schedule another pass instead if Redis has lost the task's end, or if the sweeper has started a new generation of
    its logs: the end is decided again, or the new events are written, first.
    """
    left = engine.board.leave(task_id, engine.policy.keep, generation)
    if left:
        engine.schedule.drop(task_id)
        left = engine.board.leave(task_id, engine.policy.keep, generation)  # Redis may have been set back meanwhile
    if not left:
        engine.schedule.put(task_id)


def _gather(engine: Engine, task_id: str) -> None:
    """Compact the history into one file. Raise CorruptHistory if a step is missing."""
    for pause in _PAUSES:
        if engine.histories.fold(task_id):
            return
        engine.clock.sleep(pause)
    deque(engine.histories.lines(task_id), maxlen=0)
    raise _contended(history_path(task_id))


def _close(engine: Engine, task_id: str, epoch: int, marker: Versioned) -> bool:
    """Change the marker from open to closing, and to closed if Redis still has the end of this epoch.

    While the marker is closing, no item is accepted. If an item was accepted before that, while Redis had lost the end,
    the item is in Redis, and the end is not. A worker that rebuilds the task meanwhile reopens the marker, so that the
    second change fails. If Redis was restarted or emptied, raise TransientError: the sweeper first adds all items and
    starts new logs, since numbers of lost events may have been used again.
    """
    path, ours = open_path(task_id), closing(epoch)
    if marker.data != ours and not engine.files.replace(path, ours, marker.version):
        return False
    if not engine.schedule.recovered(task_id):
        raise TransientError(f"task {task_id!r} cannot be closed before the sweeper has recovered Redis; it is retried")
    changed = engine.files.get_versioned(path)
    if changed is None or changed.data != ours:
        return False
    now = engine.board.load(task_id, 1)
    if now is None or now.phase is not Phase.END or now.epoch != epoch:
        recover.reopen(engine, task_id)
        return False
    return engine.files.replace(path, CLOSED, changed.version)


def _write_events(engine: Engine, task_id: str) -> None:
    """Append the events of the log that the file lacks.

    Read the file before the log, and replace it only if it is unchanged: so no late write removes newer events.
    """
    for pause in _PAUSES:
        stored = engine.files.get_versioned(events_path(task_id))
        lines = [as_stored(line) for line in engine.logs.events(task_id, 0)]
        data = extended(b"" if stored is None else stored.data, lines)
        if data is None or engine.files.replace(events_path(task_id), data, _version(stored)):
            return
        engine.clock.sleep(pause)
    raise _contended(events_path(task_id))


def _write_summary(engine: Engine, summary: TaskSummary) -> None:
    """Replace the stored summary, unless it is that of a closed task or of a later decision."""
    path, data = summary_path(summary.task_id), summary.model_dump_json().encode()
    for pause in _PAUSES:
        stored = engine.files.get_versioned(path)
        if stored is not None and not _may_replace(engine, summary, read_summary(stored.data)):
            return
        if engine.files.replace(path, data, _version(stored)):
            return
        engine.clock.sleep(pause)
    raise _contended(path)


def _may_replace(engine: Engine, summary: TaskSummary, before: TaskSummary | None) -> bool:
    """Return True if the summary is newer than the stored one.

    A summary that cannot be read is replaced too, unless it may belong to a closed task.
    """
    if before is not None:
        return summary.follows(before)
    return summary.status.ended or engine.files.get(open_path(summary.task_id)) not in (None, CLOSED)


def _version(stored: Versioned | None) -> str | None:
    return None if stored is None else stored.version


def _contended(path: str) -> TransientError:
    return TransientError(f"other workers keep changing {path!r}; the write is retried")


def _summary(engine: Engine, task_id: str, task: Snapshot) -> TaskSummary:
    return TaskSummary(
        task_id=task_id,
        team=engine.teams.get(task_id).name,
        status=task.status,
        reason=task.reason,
        steps=task.state.steps,
        epoch=task.epoch,
        generation=task.generation,
        tokens_in=task.state.tokens_in,
        tokens_out=task.state.tokens_out,
        cost=task.state.cost,
        agents=task.state.agents,
        tools=task.state.tools,
        created_at=engine.teams.began(task_id, task.state) or engine.now(),
        updated_at=engine.now(),
    )
