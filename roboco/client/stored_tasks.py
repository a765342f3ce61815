"""StoredTasks: the tasks of the workspace, while Redis and its task index do not answer."""

from collections.abc import Iterator

from roboco.client.options import TaskFilterOptions
from roboco.client.orchestrator import Orchestrator
from roboco.client.task_list import task_filter
from roboco.domain.task_entry import TaskEntry
from roboco.domain.task_summary import entry_of
from roboco.errors import CorruptHistory


class StoredTasks:
    """The tasks that meet conditions, as the workspace has them; an open task may have another status by now."""

    def __init__(self, orchestrator: Orchestrator, filters: TaskFilterOptions) -> None:
        self._orchestrator = orchestrator
        self._wanted = task_filter(orchestrator.settings.tenant, filters)
        self.broken: list[str] = []
        """An error for each task that is left out, because neither its summary nor its history can be read."""

    def newest(self, limit: int) -> list[TaskEntry]:
        """Return at most `limit` tasks, the latest change first. Cost: a request for each task of the workspace."""
        found = (entry for entry in self._entries() if self._wanted.matches(entry))
        return sorted(found, key=lambda entry: (entry.updated_at, entry.task_id), reverse=True)[:limit]

    def _entries(self) -> Iterator[TaskEntry]:
        for task_id in self._orchestrator.task_ids():
            try:
                stored = self._orchestrator.stored_summary(task_id)
            except CorruptHistory as error:
                self.broken.append(str(error))
            else:
                if stored is not None:
                    yield entry_of(stored)
