"""task_usages: the usage of a task by agent, model, tool and day, from its history, which is read once.

    usage.json ─► complete? ─► usage                                            1 request
       └── no ─► steps after it ─► fold ─► usage ─► usage.json (replace)        + those steps, + 1 request

The history is the record, and `usage.json` is derived from it: it holds the usage of the first steps, and the digest of
the last of them. It is replaced only if no other reader has written it since. If it is lost, cannot be read or belongs
to a history that was restored to an earlier step, the whole history is read again.
"""

import logging
from collections.abc import Iterator

from roboco.domain.history.step import TaskStep
from roboco.domain.paths import usage_path
from roboco.domain.task_usage import TaskUsage, parse_task_usage
from roboco.engine.engine import WorkspaceRecords
from roboco.errors import CorruptHistory, TransientError
from roboco.ports.workspace import VersionedFile

_log = logging.getLogger(__name__)

STORE_INTERVAL = 64
"""Steps of an open task that are read again with each report, at most, before its usage is stored."""


def task_usage(workspace: WorkspaceRecords, task_id: str, steps_at_end: int | None) -> TaskUsage:
    """Return the usage of the steps that are committed now. `steps_at_end` is their number if the task has ended.

    Cost: one request to the workspace for an ended task whose usage is stored, else also a read of the steps that are
    not counted yet. The usage is stored for an ended task, and for an open one after each 64 steps.
    """
    file = workspace.files.get_versioned(usage_path(task_id))
    stored = None if file is None else parse_task_usage(file.data)
    if stored is not None and stored.task_id == task_id and stored.steps == steps_at_end:
        return stored
    before = stored or TaskUsage(task_id=task_id)
    new_steps = None if before.task_id != task_id or not before.steps else _steps_after(workspace, before)
    if new_steps is None:
        before, new_steps = TaskUsage(task_id=task_id), workspace.histories.read(task_id)
    usage = before.after(new_steps)
    if steps_at_end is not None and usage.steps < steps_at_end:
        raise CorruptHistory(
            f"the history of task {task_id!r} has {usage.steps} steps, and its summary {steps_at_end}: "
            "restore the history from a backup or an older version"
        )
    has_ended = steps_at_end is not None and usage.steps >= steps_at_end
    if usage != stored and (has_ended or usage.steps - before.steps >= STORE_INTERVAL):
        _store(workspace, usage, file)
    return usage


def _steps_after(workspace: WorkspaceRecords, before: TaskUsage) -> Iterator[TaskStep] | None:
    """Return the steps that follow those of the usage, or None if the history does not begin with these any more."""
    steps = workspace.histories.read(before.task_id, before.steps - 1)
    last = next(steps, None)
    return None if last is None or last.digest != before.last_digest else steps


def _store(workspace: WorkspaceRecords, usage: TaskUsage, file: VersionedFile | None) -> None:
    """Store the usage, unless another reader has stored one meanwhile. If it fails, the next report reads more."""
    version = None if file is None else file.version
    try:
        workspace.files.replace(usage_path(usage.task_id), usage.model_dump_json().encode(), version)
    except TransientError as error:
        _log.warning("the usage of task %s is not stored; the next report counts it again: %s", usage.task_id, error)
