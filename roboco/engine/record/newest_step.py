"""newest_step: the last committed step of a task, without a read of its whole history."""

from roboco.domain.history.step import TaskStep
from roboco.engine.engine import Engine
from roboco.errors import TransientError


def newest_step(engine: Engine, task_id: str) -> TaskStep | None:
    """Return the newest step of the workspace, or None if there is none.

    Cost: one read of Redis, and the steps after those that Redis has applied: none, or few. Of a task that Redis does
    not have, or while Redis does not answer, the steps after those of its summary.
    """
    newest: TaskStep | None = None
    for step in engine.workspace.histories.read(task_id, max(0, _known_steps(engine, task_id) - 1)):
        newest = step
    return newest


def _known_steps(engine: Engine, task_id: str) -> int:
    """Return a number of steps that the history has at least."""
    try:
        live = engine.tasks.task_store.load(task_id, 1)
    except TransientError:
        live = None
    if live is not None:
        return live.position.seq
    summary = engine.workspace.summaries.get(task_id)
    return 0 if summary is None else summary.steps
