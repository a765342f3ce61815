"""TaskSummaries: the tasks of a workspace at a glance, also while Redis does not answer."""

from collections.abc import Iterator

from roboco.client.orchestrator import Orchestrator
from roboco.domain.paths import history_path, segments_path
from roboco.domain.task_summary import TaskSummary
from roboco.errors import CorruptHistory, TransientError


class TaskSummaries:
    """Summaries of tasks. Once Redis does not answer, they are those of the workspace."""

    def __init__(self, orchestrator: Orchestrator) -> None:
        self._orchestrator = orchestrator
        self.stale = ""
        """Why the summaries are those of the workspace, or "" if they are current."""
        self.broken: list[str] = []
        """An error for each task that is left out, because neither its summary nor its history can be read."""

    def __iter__(self) -> Iterator[TaskSummary]:
        """Yield the summary of each task of the workspace, oldest first."""
        task_ids = self._orchestrator.task_ids()
        stored = [summary for task_id in task_ids if (summary := self._stored_or_none(task_id)) is not None]
        return map(self._current, sorted(stored, key=lambda summary: summary.created_at))

    def get(self, task_id: str) -> TaskSummary:
        """Return the summary of one task. Raises UsageError if there is none."""
        return self._current(self._orchestrator.stored_task(task_id).stored_summary())

    def _current(self, stored: TaskSummary) -> TaskSummary:
        if not self.stale and not stored.status.ended:
            try:
                return self._orchestrator.task(stored.task_id).summary()
            except TransientError as error:
                self.stale = f"{error}; open tasks are shown as the workspace has them"
        return stored

    def _stored_or_none(self, task_id: str) -> TaskSummary | None:
        try:
            return self._orchestrator.stored_summary(task_id)
        except CorruptHistory as error:
            self.broken.append(str(error))
            return None


def check_complete(summary: TaskSummary, steps: int) -> None:
    """Raise CorruptHistory if the task's history has fewer steps than its summary: some of them are lost."""
    expected = summary.steps if summary.status.ended else 1
    if steps < expected:
        path = history_path(summary.task_id)
        raise CorruptHistory(
            f"task {summary.task_id!r} is {summary.status} with {summary.steps} steps, but its history has {steps}; "
            f"restore {path!r}, and in S3 {segments_path(summary.task_id)!r}, from a backup or an older version"
        )
