"""turn_failed: a turn that has failed for good. Flower shows its Celery task as failed, with the reason."""

from dataclasses import dataclass

from roboco.domain.decision.decide import failure_reason
from roboco.domain.history.lineage import parent_of
from roboco.domain.history.state import History, TaskState
from roboco.domain.history.step import TaskStep
from roboco.domain.team.team import Team
from roboco.engine.run.attempt_outcome import SwitchedOff, TurnOutcome
from roboco.ports.assignment import TurnAssignment
from roboco.ports.task_store import Snapshot


@dataclass(frozen=True)
class TurnFailed:
    """The turn is committed, and its step ends the task as failed, or lets a conversation wait, for this reason."""

    reason: str


TurnResult = TurnOutcome | TurnFailed | SwitchedOff
"""The result of an attempt to run a turn."""


def task_failure(team: Team, task: Snapshot, task_id: str, step: TaskStep, state: TaskState) -> TurnFailed | None:
    """Return the failure of the task with this step, after which it is in this state, or None if the task continues."""
    if step.error is None:
        return None
    reason = failure_reason(team, History(state, (step,)), parent_of(task_id, task.steps.first) is not None)
    return None if reason is None else TurnFailed(reason)


def stored_failure(team: Team, task: Snapshot, order: TurnAssignment) -> TurnFailed | None:
    """Return the failure of the task with the step of this attempt, or None if the attempt stored no such step."""
    step = task.steps.tail[-1]
    if step.seq != order.seq or step.metadata.get("attempt", order.attempt) != order.attempt:
        return None
    return task_failure(team, task, order.task_id, step, task.state)
