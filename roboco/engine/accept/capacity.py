"""capacity: refuse new tasks while too many wait, or while Redis is nearly full."""

from roboco.domain.paths import summary_path
from roboco.engine.engine import Engine
from roboco.errors import Overloaded

MAX_MEMORY_SHARE = 0.8
"""The part of its memory that Redis may use when a task is accepted. The rest is for running tasks and controls."""


def check_capacity(engine: Engine, task_id: str) -> None:
    """Raise Overloaded if too many tasks wait, or Redis is too full, for a new task. A repetition is not a new task."""
    if (reason := _overload(engine, task_id)) and engine.workspace.files.size(summary_path(task_id)) is None:
        raise Overloaded(f"task {task_id!r} is not accepted: {reason}; submit it again later")


def _overload(engine: Engine, task_id: str) -> str:
    """Return the reason against a new task, or "". Tasks that wait for their start time count as waiting turns."""
    if (share := engine.tasks.task_store.memory_share(task_id)) >= MAX_MEMORY_SHARE:
        return (
            f"Redis uses {share:.0%} of its memory, and from {MAX_MEMORY_SHARE:.0%} on the rest is for tasks that run: "
            "raise its `maxmemory`, or stop tasks"
        )
    max_queued = engine.policy.max_queued
    if max_queued is None:
        return ""
    waiting = max(engine.services.dispatcher.backlog(task_id), engine.tasks.task_index.count_queued())
    if waiting < max_queued:
        return ""
    return f"{waiting} turns wait for workers or their start time, at most {max_queued} may (ROBOCO_MAX_QUEUED)"
