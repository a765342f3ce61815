"""TaskSummary: the content of `task.json`, a task at a glance."""

from typing import Any

from pydantic import ValidationError

from roboco.domain.task_entry import TaskEntry, TaskRecord
from roboco.domain.usage import Usage

MAX_REASON_CHARS = 100
"""The longest reason of an entry, in characters. The task's summary holds all of it."""


class TaskSummary(TaskRecord):
    """The summary of a task."""

    retry_of: str = ""
    """The failed task with whose retry this one began."""
    retried_as: str = ""
    """The task with which this one, which has failed, was retried. It is the only field that changes after the end."""
    generation: str = ""
    """The generation of the logs at the time of the decision that the summary describes."""
    agents: dict[str, Usage] = {}
    """The usage of each agent."""
    tools: dict[str, Usage] = {}
    """The usage of each tool."""
    limit_overrides: dict[str, Any] | None = None
    """Limits that replace the team's, as of the end; None if no end is recorded here."""

    def supersedes(self, stored: "TaskSummary") -> bool:
        """Return True if this summary is newer than the stored one, and the stored one is not that of an ended task.

        An end is final once it is written: Redis may have lost the decision that the stored summary describes. If Redis
        was set back, its next decision has the position of the lost one: then the one that differs is newer. A late
        writer of the lost one is corrected by the next pass over the task.
        """
        if stored.status.ended:
            return False
        again = self._order == stored._order and self.status != stored.status
        return self.status.ended or again or self._order > stored._order

    def with_time_of(self, stored: "TaskSummary") -> "TaskSummary":
        """Return this summary, with the time of the stored one if the task has not changed since."""
        unchanged = (self.status, self.reason, self.steps) == (stored.status, stored.reason, stored.steps)
        return self.model_copy(update={"updated_at": stored.updated_at}) if unchanged else self

    @property
    def _order(self) -> tuple[int, str, int]:
        """Return the position in the order of decisions. Within a generation Redis loses none; steps are never lost."""
        return self.steps, self.generation, self.epoch


def parse_summary(data: bytes) -> TaskSummary | None:
    """Return the summary, or None if the bytes are not one, as a full disk or a restore may leave them."""
    try:
        return TaskSummary.model_validate_json(data)
    except ValidationError:
        return None


def entry_of(summary: TaskSummary) -> TaskEntry:
    """Return the entry of a task with this summary."""
    shared = {name: getattr(summary, name) for name in TaskRecord.model_fields}
    return TaskEntry.model_validate(shared | {"reason": short_reason(summary.reason)})


def short_reason(reason: str) -> str:
    """Return the beginning of a reason, as an entry holds it."""
    return reason if len(reason) <= MAX_REASON_CHARS else f"{reason[: MAX_REASON_CHARS - 1].rstrip()}…"
