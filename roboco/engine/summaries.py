"""Summaries: the stored summary of each task. A coordinator replaces that of an open task if it cannot be read."""

from roboco.domain.paths import CLOSED, open_marker_path, summary_path
from roboco.domain.task_summary import TaskSummary, parse_summary
from roboco.engine.tombstones import erased_error
from roboco.errors import CorruptHistory, NotFound, UsageError
from roboco.ports.workspace import Files


class Summaries:
    """The summaries of tasks in the workspace."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def get(self, task_id: str) -> TaskSummary | None:
        """Return the summary in the workspace, or None if there is none.

        Raise CorruptHistory if it cannot be read.
        """
        if (data := self._files.get(summary_path(task_id))) is None:
            return None
        if (summary := parse_summary(data)) is None:
            raise CorruptHistory(
                f"{summary_path(task_id)!r} cannot be read: restore it from a backup; that of an open task is replaced "
                "when the task next waits or ends"
            )
        return summary

    def require(self, task_id: str) -> TaskSummary:
        """Return the summary in the workspace. Raise UsageError if there is no such task, or if it was erased."""
        summary = self.get(task_id)
        if summary is None:
            raise self.missing(task_id)
        return summary

    def missing(self, task_id: str) -> UsageError:
        """Return the error of a task that has no summary: it was erased, or there is none. Cost: one read."""
        return erased_error(self._files, task_id) or NotFound(f"no task {task_id!r} in this workspace")

    def is_closed(self, task_id: str) -> bool:
        """Return True if the task has been closed, False if it is open or unknown.

        A submission may write the marker meanwhile: it adds the items of the inbox after that.
        """
        return self.is_closed_by(task_id, self._files.get(open_marker_path(task_id)))

    def is_closed_by(self, task_id: str, marker: bytes | None) -> bool:
        """Return the same as `is_closed` for a task whose marker was read, which is None if there is none."""
        if marker is not None:
            return marker == CLOSED
        summary = self.get(task_id)
        return summary is not None and summary.status.ended
