"""Overview: the tasks of a workspace at a glance, with or without a Redis that answers."""

from collections.abc import Iterator

from roboco.client.orchestrator import Orchestrator
from roboco.domain.paths import summary_path
from roboco.domain.summary import TaskSummary
from roboco.errors import TransientError, UsageError


class Overview:
    """Summaries of tasks. Once Redis does not answer, they are what the workspace says, and `live` is False."""

    def __init__(self, orchestrator: Orchestrator) -> None:
        self._orchestrator = orchestrator
        self.live = True

    def __iter__(self) -> Iterator[TaskSummary]:
        """All tasks of the workspace, oldest first."""
        names = self._orchestrator.task_ids()
        found = [summary for name in names if (summary := self._stored(name)) is not None]
        return map(self._now, sorted(found, key=lambda summary: summary.created_at))

    def of(self, task_id: str) -> TaskSummary:
        """The summary of one task; UsageError if there is none."""
        stored = self._stored(self._orchestrator.whole_id(task_id))
        if stored is None:
            raise UsageError(f"no task {task_id!r} in workspace {self._orchestrator.settings.workspace}")
        return self._now(stored)

    def _now(self, stored: TaskSummary) -> TaskSummary:
        if self.live and not stored.status.ended:
            try:
                return self._orchestrator.task(stored.task_id).summary()
            except TransientError:
                self.live = False
        return stored

    def _stored(self, task_id: str) -> TaskSummary | None:
        data = self._orchestrator.engine.files.get(summary_path(task_id))
        return None if data is None else TaskSummary.model_validate_json(data)
