"""early_files: files that are uploaded before their task is submitted belong to the caller that uploads them.

    upload, no task.json ─► early_files.json: the caller (create) ─► file ─► is the record still the caller's?
    submission           ─► task.json ─► record of another caller? ─► its files are removed
    a day later          ─► still no task.json? ─► files and record are removed

An upload writes the record before the file, and a submission writes the task before it reads the record. So in any
order, either the submission removes a foreign file, or the upload finds that the id has been taken, and removes it.
"""

from datetime import datetime
from typing import Final

from roboco.domain.history.part import Artifact
from roboco.domain.paths import (
    EARLY_FILES_PREFIX,
    artifact_info_path,
    artifact_path,
    artifacts_path,
    early_files_path,
    summary_path,
    uploads_path,
)
from roboco.domain.schema import RecordedCaller, RecordModel
from roboco.engine.engine import Engine, WorkspaceRecords
from roboco.errors import StateConflict

LIFETIME: Final = 86_400.0
"""Seconds after the last upload at which the files of an id that is still unused are removed."""
_PAGE: Final = 1000


class EarlyFiles(RecordModel):
    """The owner of the files of an id that has no task yet."""

    by: RecordedCaller = None
    created_at: datetime


def owner_of(workspace: WorkspaceRecords, task_id: str) -> EarlyFiles | None:
    """Return the owner of the files of an unused id, or None if it has none, or has a task."""
    data = workspace.files.get(early_files_path(task_id))
    if data is None or workspace.files.size(summary_path(task_id)) is not None:
        return None
    return EarlyFiles.model_validate_json(data)


def reserve(engine: Engine, task_id: str, by: str | None) -> None:
    """Let the files of an unused id belong to the caller. Raise StateConflict if they are another caller's."""
    record = EarlyFiles(by=by, created_at=engine.now())
    engine.workspace.files.create(early_files_path(task_id), record.model_dump_json().encode())
    check_owner(engine.workspace, task_id, by)
    engine.tasks.schedule.set(f"{EARLY_FILES_PREFIX}{task_id}", LIFETIME)


def release(workspace: WorkspaceRecords, task_id: str) -> None:
    """Remove the record of an id without files, after an upload that has failed."""
    if not workspace.files.names(artifacts_path(task_id)):
        workspace.files.delete(early_files_path(task_id))


def confirm(engine: Engine, task_id: str, by: str | None, file: Artifact) -> None:
    """Remove the file, and raise StateConflict, if another caller has submitted the task meanwhile."""
    try:
        reserve(engine, task_id, by)  # a failed upload beside this one may have removed the record
    except StateConflict:
        engine.workspace.files.delete(artifact_path(task_id, file.name))
        engine.workspace.files.delete(artifact_info_path(task_id, file.name))
        raise


def check_owner(workspace: WorkspaceRecords, task_id: str, by: str | None) -> None:
    """Raise StateConflict if the files of the id belong to another caller."""
    data = workspace.files.get(early_files_path(task_id))
    if data is not None and EarlyFiles.model_validate_json(data).by != by:
        raise StateConflict(f"the files of task id {task_id!r} belong to another caller; choose another id")


def take(engine: Engine, task_id: str, by: str | None) -> None:
    """Let the id belong to the task of this caller: remove the files that another caller has uploaded."""
    data = engine.workspace.files.get(early_files_path(task_id))
    if data is None or EarlyFiles.model_validate_json(data).by == by:
        return
    record = EarlyFiles(by=by, created_at=engine.now())
    engine.workspace.files.put(early_files_path(task_id), record.model_dump_json().encode())
    _remove_files(engine.workspace, task_id)


def expire(engine: Engine, task_id: str) -> None:
    """Remove the files and the record of an id that is still unused."""
    if owner_of(engine.workspace, task_id) is not None:
        _remove_files(engine.workspace, task_id)
        engine.workspace.files.delete(early_files_path(task_id))


def _remove_files(workspace: WorkspaceRecords, task_id: str) -> None:
    for folder in (artifacts_path(task_id), artifact_info_path(task_id), uploads_path(task_id)):
        while workspace.files.delete_tree(folder, _PAGE) == _PAGE:
            continue
