"""attempt_counts: the attempts that are counted for each task, because they may crash their worker."""

from roboco.engine.engine import TaskStores

ATTEMPT_KINDS = ("pass", "failed-pass", "router")
"""The kinds of attempts that are counted for a task."""


def reset_attempts(tasks: TaskStores, task_id: str) -> None:
    """Reset the counts of the task's attempts to zero."""
    tasks.leases.finish_attempts(*(f"{kind}:{task_id}" for kind in ATTEMPT_KINDS))
