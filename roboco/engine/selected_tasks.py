"""selected_tasks: the tasks of the workspace, page by page, for work on all that meet a condition.

The task index forgets ended tasks after a while, so this reads the workspace. Cost: a listing for each page of folders,
and a read for each task whose id is wanted, several at the same time.
"""

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from roboco.domain.ids import is_task_id, tenant_of
from roboco.domain.task_summary import TaskSummary
from roboco.engine.engine import WorkspaceRecords
from roboco.errors import CorruptHistory, UsageError

_log = logging.getLogger(__name__)

PARALLEL_READS = 8
"""Tasks that are read at the same time."""


@dataclass(frozen=True)
class SelectedPage:
    """A page of tasks. It may be empty and have a cursor."""

    tasks: tuple[TaskSummary, ...]
    read: int
    """The number of tasks that were read."""
    cursor: str
    """The cursor of the next page, or "" after the last one."""
    unknown: tuple[str, ...] = ()
    """The ids of folders without a readable summary: files that precede a task, or a damaged task."""
    broken: tuple[str, ...] = ()
    """Why summaries cannot be read, at most one for each damaged task."""


def select_page(
    workspace: WorkspaceRecords,
    is_wanted: Callable[[TaskSummary], bool],
    cursor: str = "",
    limit: int = 200,
    tenant: str | None = None,
) -> SelectedPage:
    """Return the wanted tasks of a page of at most `limit` folders; with `tenant`, only its tasks are read.

    A task whose summary cannot be read is left out, and logged. Raise UsageError if the store refuses the cursor, and
    TransientError if it does not answer.
    """
    page = workspace.files.folders(cursor, limit)
    if page is None:
        raise UsageError("cursor: the store refuses it, because it has expired; begin with the first page")
    task_ids = [name for name in page.names if is_task_id(name) and tenant in (None, tenant_of(name))]
    with ThreadPoolExecutor(PARALLEL_READS, thread_name_prefix="roboco-select") as threads:
        found = list(threads.map(lambda task_id: _summary_or_mistake(workspace, task_id), task_ids))
    wanted = tuple(summary for summary in found if isinstance(summary, TaskSummary) and is_wanted(summary))
    unknown = tuple(name for name, one in zip(task_ids, found, strict=True) if not isinstance(one, TaskSummary))
    broken = tuple(one for one in found if isinstance(one, str))
    return SelectedPage(wanted, len(task_ids), page.cursor, unknown, broken)


def _summary_or_mistake(workspace: WorkspaceRecords, task_id: str) -> TaskSummary | str | None:
    """Return the summary of the task, why it cannot be read, or None if there is none."""
    try:
        return workspace.summaries.get(task_id)
    except CorruptHistory as error:
        _log.warning("task %s is left out: %s", task_id, error)
        return str(error)
