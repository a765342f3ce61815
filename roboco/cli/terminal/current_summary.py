"""current_summary: a task at a glance, also while Redis does not answer."""

from roboco.client.task import Task
from roboco.domain.paths import history_path, segments_path
from roboco.domain.task_summary import TaskSummary
from roboco.errors import CorruptHistory, TransientError


def current_summary(task: Task) -> tuple[TaskSummary, str]:
    """Return the summary of the task, and why it is that of the workspace, or "" if it is current."""
    stored = task.stored_summary()
    if not stored.status.ended:
        try:
            return task.summary(), ""
        except TransientError as error:
            return stored, stale_message(error)
    return stored, ""


def stale_message(error: TransientError) -> str:
    """Return the warning that open tasks may have advanced further than shown, and why."""
    return f"{error}; open tasks are shown as the workspace has them"


def check_complete(summary: TaskSummary, steps: int) -> None:
    """Raise CorruptHistory if the task's history has fewer steps than its summary: some of them are lost."""
    expected = summary.steps if summary.status.ended else 1
    if steps < expected:
        path = history_path(summary.task_id)
        raise CorruptHistory(
            f"task {summary.task_id!r} is {summary.status} with {summary.steps} steps, but its history has {steps}; "
            f"restore {path!r}, and in S3 {segments_path(summary.task_id)!r}, from a backup or an older version"
        )
