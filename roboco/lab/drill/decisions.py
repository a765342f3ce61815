"""decisions: a replay of the decisions of a task, by the task's own team and router."""

from roboco.client.orchestrator import Orchestrator
from roboco.lab.replay.replay import replay


def wrong_decisions(orchestrator: Orchestrator, task_id: str) -> list[str]:
    """Return the positions at which another action follows from the record. Raise CorruptHistory without a record."""
    task = orchestrator.stored_task(task_id)
    recorded = task.recorded(router=orchestrator.router(task.team()))
    differing = (one for one in replay(recorded) if one.comparison == "differs")
    return [f"step {one.seq}: recorded {one.recorded}, decided {one.chosen}" for one in differing]
