"""TaskEntry: a task as the task index lists it. It is derived from the task's summary, or from its state in Redis."""

from datetime import datetime

from roboco.domain.ids import tenant_of
from roboco.domain.schema import RecordModel
from roboco.domain.status import TaskStatus

MAX_REASON_CHARS = 100
"""The longest reason of an entry, in characters. The task's summary holds all of it."""


class TaskEntry(RecordModel):
    """A task in a list, as of the last change of its status. Times are UTC."""

    task_id: str
    team: str
    title: str = ""
    """The title that the client gave, or the first line of the prompt."""
    status: TaskStatus
    reason: str = ""
    """Why the task has this status, or what it waits for while it runs, shortened to 100 characters."""
    waits: bool = False
    """True if the task runs, and a person or client is asked: for a call beside others, or in a sub-task."""
    steps: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost: float = 0.0
    created_at: datetime
    updated_at: datetime
    """The time of the last change of the status."""
    epoch: int = 0
    """The fence of the task's decision that the entry describes. A higher one is newer."""

    @property
    def tenant(self) -> str:
        """The tenant of the task, or "" if it has none."""
        return tenant_of(self.task_id)


def short_reason(reason: str) -> str:
    """Return the beginning of a reason, as an entry holds it."""
    return reason if len(reason) <= MAX_REASON_CHARS else f"{reason[: MAX_REASON_CHARS - 1].rstrip()}…"
