"""newest_step: the last committed step of a task, without a read of its whole history."""

from roboco.domain.history.step import TaskStep
from roboco.engine.engine import Engine


def newest_step(engine: Engine, task_id: str) -> TaskStep | None:
    """Return the newest step of the workspace, or None if there is none.

    Cost: one read of Redis, and the steps after those that Redis has applied: none, or few. Of a task that Redis does
    not have, the steps after those of its summary.
    """
    live = engine.task_store.load(task_id, 1)
    if live is not None:
        applied = live.seq
    else:
        summary = engine.summaries.get(task_id)
        applied = 0 if summary is None else summary.steps
    newest: TaskStep | None = None
    for step in engine.histories.read(task_id, max(0, applied - 1)):
        newest = step
    return newest
