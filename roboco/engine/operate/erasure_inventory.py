"""erasure_inventory: the parts of an erased task: its files, dead letters, sub-tasks and forks.

Sub-tasks are erased with their task: they exist for it alone. Forks are tasks of others; the request decides.
"""

import logging
from collections import Counter
from collections.abc import Iterable

from roboco.domain.builtin_tools import DELEGATE
from roboco.domain.history.step import parse_step
from roboco.domain.ids import sub_task_id
from roboco.domain.paths import forks_path, task_folder
from roboco.domain.removal.erasure import MAX_LISTED, ErasureReceipt, ErasureRequest, concerns
from roboco.engine.accept.request_erasure import request_erasure
from roboco.engine.engine import Engine, TaskStores, WorkspaceRecords
from roboco.engine.record.task_memory import memory_of, remembered_by
from roboco.engine.workspace_records import is_erased
from roboco.errors import CorruptHistory, UsageError
from roboco.ports.dead_letters import DeadLetterPage

_log = logging.getLogger(__name__)

_LETTERS = 100
_NAMES = 1000


def take_inventory(engine: Engine, request: ErasureRequest) -> dict[str, object]:
    """Request the erasure of sub-tasks, and of forks if that is chosen. Return the counts for the receipt."""
    task_id, problem = request.task_id, ""
    kinds, size = Counter[str](), 0
    for file in engine.workspace.files.tree(task_folder(task_id)):
        kinds[file.path.split("/")[1].partition(".")[0]] += 1
        size += file.size
    sub_tasks, memory, remembered = list[str](), "", 0
    try:
        memory = memory_of(engine.workspace, task_id)
        for child in _sub_tasks(engine.workspace, task_id):
            _request_other(engine, request, child)
            sub_tasks.append(child)
        remembered = len(remembered_by(engine.workspace, memory, task_id).entries)
    except CorruptHistory as error:
        problem = f"sub-tasks and remembered entries may remain, because a record cannot be read: {error}"
    forks = [
        fork
        for fork in _names_below(engine.workspace, forks_path(task_id))
        if not is_erased(engine.workspace.files, fork)
    ]
    for fork in forks if request.forks == "erase" else ():
        _request_other(engine, request, fork)
    if len(sub_tasks) > MAX_LISTED or len(forks) > MAX_LISTED:
        problem = f"{len(sub_tasks)} sub-tasks and {len(forks)} forks; this receipt lists {MAX_LISTED} of each at most"
    return {
        "files": kinds.total(),
        "bytes": size,
        "kinds": dict(sorted(kinds.items())),
        "dead_letters": len(letters_of(engine.tasks, task_id)),
        "sub_tasks": sub_tasks[:MAX_LISTED],
        "forks": forks[:MAX_LISTED],
        "memory": memory,
        "remembered": remembered,
        "problem": problem,
    }


def request_listed_parts(engine: Engine, request: ErasureRequest, receipt: ErasureReceipt) -> None:
    """Request the erasure of the parts that an earlier receipt lists: the task's files may be gone."""
    for part in (*receipt.sub_tasks, *(receipt.forks if request.forks == "erase" else ())):
        _request_other(engine, request, part)


def letters_of(tasks: TaskStores, task_id: str) -> list[str]:
    """Return the ids of the dead letters that concern the task. Cost: the letters, 1,000 at most."""
    found = list[str]()
    page = DeadLetterPage([], "")
    while True:
        page = tasks.dead_letters.page(_LETTERS, page.cursor)
        found += (letter.letter_id for letter in page.letters if concerns(letter, task_id))
        if not page.cursor:
            return found


def _sub_tasks(workspace: WorkspaceRecords, task_id: str) -> Iterable[str]:
    """Yield the sub-tasks, also one that was stopped before it was submitted and holds no more than this stop.

    Only lines that may delegate are parsed. Cost: a request for each delegating call.
    """
    for line in workspace.histories.lines(task_id):
        if f'"{DELEGATE}"'.encode() not in line:
            continue
        for call in parse_step(line).calls:
            child = sub_task_id(task_id, call.id)
            if call.tool_name == DELEGATE and next(workspace.files.tree(task_folder(child)), None) is not None:
                yield child


def _request_other(engine: Engine, request: ErasureRequest, task_id: str) -> None:
    fields = {"task_id": task_id, "requested_at": engine.now(), "stop": True}
    other = request.model_copy(update=fields | ({"forks": "keep"} if request.forks == "refuse" else {}))
    try:
        request_erasure(engine, other)
    except UsageError as error:  # it never existed, or was removed by hand
        _log.info("task %s, a part of task %s, is not erased: %s", task_id, request.task_id, error)


def _names_below(workspace: WorkspaceRecords, folder: str) -> list[str]:
    found = page = workspace.files.names_after(folder, "", _NAMES)
    while len(page) == _NAMES:
        page = workspace.files.names_after(folder, page[-1], _NAMES)
        found = [*found, *page]
    return found
