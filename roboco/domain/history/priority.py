"""Priority: the order in which workers take the turns and tool calls of different tasks."""

from typing import Literal, get_args

from roboco.domain.history.step import TaskStep

Priority = Literal["high", "normal", "low"]
"""Workers take work of high priority before normal, and normal before low. Running work is not interrupted."""
PRIORITIES: tuple[Priority, ...] = get_args(Priority)
PRIORITY = "priority"
"""The metadata key of a task's first step for its priority, if it is not normal."""


def priority_of(first: TaskStep) -> Priority:
    """Return the priority of the task with this first step."""
    return next((priority for priority in PRIORITIES if priority == first.metadata.get(PRIORITY)), "normal")
