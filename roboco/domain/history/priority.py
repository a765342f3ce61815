"""Priority: which tasks' turns and tool calls go before others'."""

from typing import Literal, get_args

from roboco.domain.history.step import TaskStep

Priority = Literal["high", "normal", "low"]
"""Of what waits for a worker, high goes before normal and normal before low. What runs is not disturbed."""
PRIORITIES: tuple[Priority, ...] = get_args(Priority)
PRIORITY = "priority"
"""Where the metadata of a task's first step tells its priority, if it is not normal."""


def priority_of(first: TaskStep) -> Priority:
    """The priority of the task that begins with this step."""
    return next((priority for priority in PRIORITIES if priority == first.metadata.get(PRIORITY)), "normal")
