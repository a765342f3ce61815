"""archive: write a task's summary and events to its workspace, and close the task when it has ended.

    compact ─► events.jsonl ─► marker: closing ─► end in Redis? ─► marker: closed ─► index ─► task.json ─► parent,
               (replace)       (replace)          (load; no: reopen) (replace)       (put)    (replace)    notifications
                                                                                                       ─► no marker

Both files are derived data. A worker replaces a file only if no other worker has written it since the read, and only
with newer content, so that neither goes backwards.

If the worker dies before the marker is closed, the task is open, and the next pass repeats the whole. If it dies after
that, the end is final, and the next pass writes the rest. The marker is deleted last: until then the sweeper
repeats the pass.
"""

from collections import deque
from functools import partial

from roboco.domain.history.compaction import archiving_due
from roboco.domain.paths import CLOSED, closing_marker, history_path, open_marker_path, summary_path
from roboco.domain.session.session import title_of
from roboco.domain.task_summary import TaskSummary, entry_of, parse_summary
from roboco.engine import notifications as notify
from roboco.engine.coordinate.delegate import report_to_parent
from roboco.engine.coordinate.running_entry import index_parents
from roboco.engine.engine import Engine, WorkspaceRecords
from roboco.engine.record import recover
from roboco.engine.record.event_archive import archive_waiting, version_of, write_events
from roboco.engine.retry import RETRY_DELAYS, contention_error
from roboco.engine.task_entries import put_entry
from roboco.errors import TransientError
from roboco.ports.snapshot import Snapshot
from roboco.ports.workspace import VersionedFile

INDEX_RETRY_DELAY = 60.0
"""Seconds until the next pass over a closed task whose end the task index did not take."""


def archive(engine: Engine, task_id: str, task: Snapshot) -> None:
    """Write the summary of a waiting task, and archive its events. A repetition is harmless.

    If another worker has ended the task since, change nothing.
    """
    summary = _current_summary(engine, task_id, task)
    stored = engine.workspace.files.get_versioned(summary_path(task_id))
    before = None if stored is None else parse_summary(stored.data)
    summary = summary if before is None else summary.with_time_of(before)
    put_entry(engine.tasks, entry_of(summary if before is None or not before.status.ended else before))
    if before is not None and not summary.supersedes(before):
        return
    index_parents(engine, task_id, task)
    archived = 0 if before is None else before.steps
    archive_waiting(engine, task_id, task, merge=any(archiving_due(seq) for seq in range(archived, task.position.seq)))
    if before is None or not _replace_summary(engine.workspace, summary, stored):
        _write_summary(engine, summary)


def close_task(engine: Engine, task_id: str, task: Snapshot, marker: VersionedFile) -> bool:
    """Close an ended task: complete its workspace, and let Redis expire it. A repetition is harmless.

    Return False, and leave the task open, if Redis has lost its end or another worker changed the marker.
    """
    _compact_history(engine, task_id)
    write_events(engine, task_id)
    if marker.data != CLOSED and not _close_marker(engine, task_id, task.position.epoch, marker):
        return False
    summary = _current_summary(engine, task_id, task)
    is_indexed = put_entry(engine.tasks, entry_of(summary))  # before readers of the result ask for the list of tasks
    _write_summary(engine, summary)
    report_to_parent(engine, task_id, task)
    notify.enqueue(engine, task_id, task)
    engine.services.telemetry.task_ended(summary)
    engine.workspace.files.delete(open_marker_path(task_id))
    _expire_indexed(engine, task_id, task.logs.generation, is_indexed)
    return True


def close_again(engine: Engine, task_id: str, task: Snapshot) -> None:
    """Let Redis expire a closed task whose end was decided again, after writing the events of its new generation.

    If the sweeper has not started that generation yet, schedule a pass: the sweeper does that first.
    """
    write_events(engine, task_id)
    if engine.tasks.schedule.recovered_instance(task_id):
        summary = engine.workspace.summaries.get(task_id)
        is_indexed = summary is None or put_entry(engine.tasks, entry_of(summary))
        _expire_indexed(engine, task_id, task.logs.generation, is_indexed)
    else:
        engine.tasks.schedule.set(task_id)


def _expire_indexed(engine: Engine, task_id: str, generation: str, is_indexed: bool) -> None:
    """Let Redis expire the closed task. If the task index lacks its end, schedule a pass that enters it first."""
    if is_indexed:
        _expire_task(engine, task_id, generation)
    else:
        engine.tasks.schedule.set(task_id, INDEX_RETRY_DELAY)


def _expire_task(engine: Engine, task_id: str, generation: str) -> None:
    """Let Redis expire a closed task after the retention time.

    Schedule another pass instead if Redis has lost the task's end, or if the sweeper has started a new generation of
    its logs: the end is decided again, or the new events are written, first.
    """
    expire = partial(engine.tasks.task_store.expire, task_id, engine.policy.retention, generation)
    if expire():
        engine.tasks.schedule.remove(task_id)
        if expire():  # Redis may have been set back meanwhile
            return
    engine.tasks.schedule.set(task_id)


def _compact_history(engine: Engine, task_id: str) -> None:
    """Compact the history into one file. Raise CorruptHistory if a step is missing."""
    for delay in RETRY_DELAYS:
        if engine.workspace.histories.compact(task_id):
            return
        engine.clock.sleep(delay)
    deque(engine.workspace.histories.lines(task_id), maxlen=0)
    raise contention_error(history_path(task_id))


def _close_marker(engine: Engine, task_id: str, epoch: int, marker: VersionedFile) -> bool:
    """Change the marker from open to closing, and to closed if Redis still has the end of this epoch.

    While the marker is closing, no item is accepted. If an item was accepted before that, while Redis had lost the end,
    the item is in Redis, and the end is not. A worker that rebuilds the task meanwhile reopens the marker, so that the
    second change fails. The first change need not be durable: without it the task is open, and the second one fails.
    If Redis was restarted or emptied, raise TransientError: the sweeper first adds all items and starts new logs, since
    numbers of lost events may have been used again.
    """
    path, closing_by_us = open_marker_path(task_id), closing_marker(epoch)
    if marker.data != closing_by_us and not engine.workspace.files.replace(
        path, closing_by_us, marker.version, durable=False
    ):
        return False
    if not engine.tasks.schedule.recovered_instance(task_id):
        raise TransientError(f"task {task_id!r} cannot be closed before the sweeper has recovered Redis; it is retried")
    changed = engine.workspace.files.get_versioned(path)
    if changed is None or changed.data != closing_by_us:
        return False
    if engine.tasks.task_store.end_epoch(task_id) != epoch:
        recover.reopen(engine.workspace, task_id)
        return False
    return engine.workspace.files.replace(path, CLOSED, changed.version)


def _write_summary(engine: Engine, summary: TaskSummary) -> None:
    """Replace the stored summary, unless it is that of a closed task or of a later decision."""
    path = summary_path(summary.task_id)
    for delay in RETRY_DELAYS:
        stored = engine.workspace.files.get_versioned(path)
        if stored is not None and not _may_replace(engine.workspace, summary, parse_summary(stored.data)):
            return
        if _replace_summary(engine.workspace, summary, stored):
            return
        engine.clock.sleep(delay)
    raise contention_error(path)


def _replace_summary(workspace: WorkspaceRecords, summary: TaskSummary, stored: VersionedFile | None) -> bool:
    """Replace the stored summary. Return False if another worker has replaced it since."""
    data = summary.model_dump_json().encode()
    return workspace.files.replace(summary_path(summary.task_id), data, version_of(stored))


def _may_replace(workspace: WorkspaceRecords, summary: TaskSummary, before: TaskSummary | None) -> bool:
    """Return True if the summary is newer than the stored one.

    A summary that cannot be read is replaced too, unless it may belong to a closed task.
    """
    if before is not None:
        return summary.supersedes(before)
    return summary.status.ended or workspace.files.get(open_marker_path(summary.task_id)) not in (None, CLOSED)


def _current_summary(engine: Engine, task_id: str, task: Snapshot) -> TaskSummary:
    return TaskSummary(
        task_id=task_id,
        team=engine.workspace.frozen_teams.get(task_id).name,
        title=title_of(task.steps.first),
        status=task.position.status,
        reason=task.position.reason,
        retry_of=engine.workspace.frozen_teams.retry_of(task_id, task.steps.first),
        steps=task.state.steps,
        epoch=task.position.epoch,
        generation=task.logs.generation,
        tokens_in=task.state.tokens_in,
        tokens_out=task.state.tokens_out,
        cost=task.state.cost,
        agents=task.state.agents,
        tools=task.state.tools,
        limit_overrides=task.state.limit_overrides if task.position.status.ended else None,
        created_at=engine.workspace.frozen_teams.started_at(task_id, task.state, task.steps.first) or engine.now(),
        updated_at=engine.now(),
    )
