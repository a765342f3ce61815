"""TaskNow: a task as of now, from which its next turn continues."""

from collections.abc import Sequence
from dataclasses import dataclass

from roboco.client.task import Task
from roboco.domain.history.step import TaskStep
from roboco.domain.stream.merged import Cursor
from roboco.domain.task_summary import TaskSummary
from roboco.gateway.problem import unavailable


@dataclass(frozen=True)
class TaskNow:
    """A task as of now, with its steps from a position on."""

    summary: TaskSummary
    cursor: str | None
    """The cursor of this moment if the task waits, else None."""
    steps: Sequence[TaskStep]

    @property
    def last(self) -> TaskStep:
        """The newest step."""
        return self.steps[-1]


def read_state(task: Task, position: int | None) -> TaskNow:
    """Return the task as of now, with its steps from a position on, or with the last one."""
    cursor = task.resting_cursor()
    summary = task.summary()
    if cursor is None and summary.status.waiting:
        raise unavailable(f"task {task.task_id!r} is being restored")
    count = summary.steps if cursor is None else Cursor.parse(cursor).steps
    first = max(0, count - 1) if position is None else position
    return TaskNow(summary, cursor, [step for step in task.steps(first) if cursor is None or step.seq < count])
