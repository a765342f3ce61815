"""TaskSummary: the content of `task.json`. It can be computed again from the history."""

from datetime import datetime
from typing import Any

from pydantic import ValidationError

from roboco.domain.schema import RecordModel
from roboco.domain.status import TaskStatus
from roboco.domain.task_entry import TaskEntry, short_reason
from roboco.domain.usage import Usage


class TaskSummary(RecordModel):
    """The summary of a task. Times are UTC."""

    task_id: str
    team: str
    title: str = ""
    """The title that the client gave, or the first line of the prompt."""
    status: TaskStatus
    reason: str = ""
    """Why it has this status; of a running task, why it does not go on, such as a model that sends nothing."""
    retry_of: str = ""
    """The failed task with whose retry this one began."""
    retried_as: str = ""
    """The task with which this one, which has failed, was retried. It is the only field that changes after the end."""
    steps: int = 0
    epoch: int = 0
    """The fence of the decision that the summary describes."""
    generation: str = ""
    """The generation of the logs at that time."""
    tokens_in: int = 0
    tokens_out: int = 0
    cost: float = 0.0
    agents: dict[str, Usage] = {}
    """The usage of each agent."""
    tools: dict[str, Usage] = {}
    """The usage of each tool."""
    limit_overrides: dict[str, Any] | None = None
    """Limits that replace the team's, as of the end; None if no end is recorded here."""
    created_at: datetime
    updated_at: datetime
    """The time at which the task got this status, with this reason and these steps."""

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
    return TaskEntry(
        task_id=summary.task_id,
        team=summary.team,
        title=summary.title,
        status=summary.status,
        reason=short_reason(summary.reason),
        steps=summary.steps,
        tokens_in=summary.tokens_in,
        tokens_out=summary.tokens_out,
        cost=summary.cost,
        created_at=summary.created_at,
        updated_at=summary.updated_at,
        epoch=summary.epoch,
    )
