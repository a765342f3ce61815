"""attempt_counts: the attempts that are counted for each task, because they may crash their worker."""

from roboco.engine.engine import Engine

ATTEMPT_KINDS = ("pass", "failed-pass", "router")
"""The kinds of attempts that are counted for a task."""


def reset_attempts(engine: Engine, task_id: str) -> None:
    """Reset the counts of the task's attempts to zero."""
    engine.leases.finish_attempts(*(f"{kind}:{task_id}" for kind in ATTEMPT_KINDS))
