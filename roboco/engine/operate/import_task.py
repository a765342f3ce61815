"""import_task: store a task that a tar holds, unless its id is known.

    verified tar ─► team.json, history ─► files ─► task.json
                    (create)             (put)    (create)

Team and history claim the id: no file of another task is replaced. `task.json` is written last: without it no reader
finds the task. If the process dies before, the same import, sent again, continues. An ended task starts nothing: it has
no open marker and no entry in the schedule. If the task is erased meanwhile, the erasure counts.
"""

from typing import BinaryIO, cast

from roboco.domain.paths import ERASE_PREFIX, erasure_path, summary_path, task_folder, team_path
from roboco.domain.removal.task_file import HEADER_NAME, HISTORY_FILE, MANIFEST_NAME, SUMMARY_FILE, TEAM_FILE
from roboco.domain.task_entry import entry_of
from roboco.domain.task_summary import TaskSummary
from roboco.engine.engine import Engine, WorkspaceRecords
from roboco.engine.operate.tar_contents import members, reading_tar, record_of
from roboco.engine.task_entries import put_entry
from roboco.engine.tombstones import check_not_erasing
from roboco.errors import Erased, StateConflict


def import_task(engine: Engine, source: BinaryIO, summary: TaskSummary) -> None:
    """Store the task of a verified tar, which has this summary.

    Raise StateConflict, and store nothing, if its id exists.
    """
    task_id = summary.task_id
    _check_free(engine.workspace, task_id)
    with reading_tar():
        _store(engine.workspace, source, task_id)
        record = record_of(source, SUMMARY_FILE)
    _put_record(engine.workspace, summary_path(task_id), record)
    put_entry(engine.tasks, entry_of(summary))
    _yield_to_erasure(engine, task_id)


def _check_free(workspace: WorkspaceRecords, task_id: str) -> None:
    if workspace.files.size(summary_path(task_id)) is not None:
        raise StateConflict(
            f"task {task_id!r} exists in this workspace, and stays as it is: to read that of the tar beside it, import "
            "it into another workspace"
        )
    check_not_erasing(workspace.files, task_id)


def _yield_to_erasure(engine: Engine, task_id: str) -> None:
    """Raise Erased if an erasure was requested meanwhile, after having a coordinator remove what was stored."""
    if engine.workspace.files.size(erasure_path(task_id)) is not None:
        engine.tasks.schedule.set(f"{ERASE_PREFIX}{task_id}")
        raise Erased(f"task {task_id!r} was erased while it was imported; what was imported is removed")


def _store(workspace: WorkspaceRecords, source: BinaryIO, task_id: str) -> None:
    """Store all files but `task.json`. The team and the history are first: they claim the id."""
    _put_record(workspace, team_path(task_id), record_of(source, TEAM_FILE))
    history = next(member for path, member in members(source) if path == HISTORY_FILE)
    if not workspace.histories.create(task_id, [line.removesuffix(b"\n") for line in history]):
        raise StateConflict(f"task {task_id!r} has another history in this workspace")
    for path, member in members(source):
        if path not in (TEAM_FILE, SUMMARY_FILE, HISTORY_FILE, HEADER_NAME, MANIFEST_NAME):
            workspace.files.put_from(task_folder(task_id) + path, cast(BinaryIO, member))


def _put_record(workspace: WorkspaceRecords, path: str, data: bytes) -> None:
    if not workspace.files.create(path, data):
        raise StateConflict(f"{path} exists in this workspace with other content; the task is not imported")
