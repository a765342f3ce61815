"""Outcomes of an attempt at a turn or call, for the display of its Celery task.

Flower shows the Celery task of a turn that has failed for good as failed, with the reason.
"""

from dataclasses import dataclass
from enum import StrEnum

from roboco.domain.decision.decide import failure_reason
from roboco.domain.history.lineage import parent_of
from roboco.domain.history.state import History
from roboco.domain.history.step import TaskStep
from roboco.domain.history.task_state import TaskState
from roboco.domain.team.team import Team
from roboco.ports.assignment import TurnAssignment
from roboco.ports.snapshot import Snapshot


class TurnOutcome(StrEnum):
    """The result of an attempt to run a turn. Flower shows its text."""

    COMMITTED = "committed"
    RATE_LIMITED = "waits until its model's rate limit allows it"
    BUDGET = "waits until the next day, or until its tenant's budget is raised"
    OUTAGE = "waits, because its model cannot be reached"
    DEFERRED = "waits for the tools of a server, or until another turn that lost its worker is done"
    HANDED_OVER = "handed over, because its worker was shut down, or an operator has switched it off"
    CUT_OFF = "the model's answer broke off in the middle: another attempt replaces it"
    REPLACED = "another attempt has replaced it"
    CLAIMED_ELSEWHERE = "another worker has claimed this attempt"
    OBSOLETE = "done before, or no longer wanted"


@dataclass(frozen=True)
class SwitchedOff:
    """A turn or call waits for this cause: a switch, or for a turn of pydantic-ai the budget of its tenant."""

    cause: str


class CallOutcome(StrEnum):
    """The result of an attempt to run a call. Flower shows its text."""

    DONE = "done, done before, or no longer wanted"
    CLAIMED_ELSEWHERE = "another worker has claimed this attempt"
    HANDED_OVER = "handed over, because its worker was shut down, or an operator has switched it off"


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
