"""TaskEntry: a task as the task index lists it, and what it shares with the summary that it is derived from."""

from datetime import datetime

from roboco.domain.ids import tenant_of
from roboco.domain.schema import RecordModel
from roboco.domain.status import TaskStatus


class TaskRecord(RecordModel):
    """A task as of the last change of its status. Times are UTC."""

    task_id: str
    team: str
    title: str = ""
    """The title that the client gave, or the first line of the prompt."""
    status: TaskStatus
    reason: str = ""
    """Why it has this status; of a running task, why it does not go on, such as a model that sends nothing."""
    steps: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost: float = 0.0
    created_at: datetime
    updated_at: datetime
    """The time at which the task got this status, with this reason and these steps."""
    epoch: int = 0
    """The fence of the task's decision that the record describes. A higher one is newer."""


class TaskEntry(TaskRecord):
    """A task in a list. Its reason is shortened to 100 characters."""

    waits: bool = False
    """True if the task runs, and a person or client is asked: for a call beside others, or in a sub-task."""

    @property
    def tenant(self) -> str:
        """The tenant of the task, or "" if it has none."""
        return tenant_of(self.task_id)
