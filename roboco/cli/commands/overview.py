"""Overview: the tasks of a workspace at a glance, with or without a Redis that answers."""

from collections.abc import Iterator

from roboco.client.orchestrator import Orchestrator
from roboco.domain.paths import history_path, segments_path
from roboco.domain.task_summary import TaskSummary
from roboco.engine.record.summaries import stored_summary
from roboco.errors import CorruptHistory, TransientError, UsageError


class Overview:
    """Summaries of tasks. Once Redis does not answer, they are what the workspace says, and `stale` says why."""

    def __init__(self, orchestrator: Orchestrator) -> None:
        self._orchestrator = orchestrator
        self.stale = ""
        self.broken: list[str] = []
        """What is wrong with the tasks that are left out, because neither their summary nor their history is there."""

    def __iter__(self) -> Iterator[TaskSummary]:
        """All tasks of the workspace, oldest first."""
        names = self._orchestrator.task_ids()
        found = [summary for name in names if (summary := self._readable(name)) is not None]
        return map(self._now, sorted(found, key=lambda summary: summary.created_at))

    def of(self, task_id: str) -> TaskSummary:
        """The summary of one task; UsageError if there is none."""
        stored = self._stored(self._orchestrator.whole_id(task_id))
        if stored is None:
            raise UsageError(f"no task {task_id!r} in workspace {self._orchestrator.settings.workspace}")
        return self._now(stored)

    def _now(self, stored: TaskSummary) -> TaskSummary:
        if not self.stale and not stored.status.ended:
            try:
                return self._orchestrator.task(stored.task_id).summary()
            except TransientError as error:
                self.stale = f"{error}; open tasks are shown as the workspace has them"
        return stored

    def _readable(self, task_id: str) -> TaskSummary | None:
        try:
            return self._stored(task_id)
        except CorruptHistory as error:
            self.broken.append(str(error))
            return None

    def _stored(self, task_id: str) -> TaskSummary | None:
        return stored_summary(self._orchestrator.engine, task_id)


def check_complete(summary: TaskSummary, steps: int) -> None:
    """CorruptHistory if the task's history has so few steps that some of them must be lost."""
    least = summary.steps if summary.status.ended else 1
    if steps < least:
        path = history_path(summary.task_id)
        raise CorruptHistory(
            f"task {summary.task_id!r} is {summary.status} with {summary.steps} steps, but its history has {steps}; "
            f"restore {path!r}, and in S3 {segments_path(summary.task_id)!r}, from a backup or an older version"
        )
