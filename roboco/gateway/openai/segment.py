"""segment: the part of a task that is one response, and how it ends.

    step N (a message, or results of client tools) ─► turns, calls, hand-offs ─► the task waits or ends
    └────────────────────────────── response resp_TASK_N ─────────────────────────────┘

A message that arrives while agents work belongs to the response of that work. A pause by a user does not end a
response; a pause at a limit does.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from roboco.domain.history.step import LIMIT, TOOL_EXECUTOR, USER, TaskStep
from roboco.domain.status import TaskStatus
from roboco.domain.stream.event import StatusChanged
from roboco.gateway.openai.tools import function_calls

ResponseStatus = Literal["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"]


@dataclass(frozen=True)
class Settled:
    """The end of a response."""

    status: ResponseStatus
    reason: str = ""
    """The cause of a failure, for people."""
    at_limit: bool = False
    """True if a limit of the task has ended it."""


COMPLETED = Settled("completed")


def begins_response(step: TaskStep, before: TaskStep) -> bool:
    """Return True if the task waited for its caller before this step."""
    if step.agent_name == USER:
        return "routing" in step.metadata or before.is_interruption or before.ends_task
    if step.agent_name == TOOL_EXECUTOR:
        return bool(function_calls(before) or step.metadata.get("approvals"))
    return False


def is_limit(step: TaskStep) -> bool:
    """Return True if the step reports that a limit was reached."""
    return not step.by_agent and step.error is not None and step.error.code == LIMIT


def settled_before(last: TaskStep) -> Settled:
    """Return how a response has ended whose last step is this one, and that another response follows."""
    if last.is_interruption:
        return Settled("cancelled")
    if is_limit(last):
        return Settled("incomplete", at_limit=True)
    return Settled("failed", last.error.message) if last.ends_task and last.error is not None else COMPLETED


def is_partly_answered(change: StatusChanged, has_steps: bool, unknown: bool) -> bool:
    """Return True if the task still waits for answers that the request of the response has given.

    Answers are applied one after another, and the task waits for the rest meanwhile. So a response that has no step
    yet ends only if its calls need a further decision: their outcome is `unknown`, or their tool has changed.
    """
    asks = change.status in (TaskStatus.CLIENT_TOOL_TURN, TaskStatus.APPROVAL)
    return asks and not has_steps and not unknown and not change.changes


def settled_by(status: TaskStatus, reason: str, last: TaskStep, unknown: bool) -> Settled | None:
    """Return how the response ends with this status of its task, or None if it goes on.

    `last` is the last step. `unknown` says that a person has to resolve a call with an unknown outcome, for which
    OpenAI's API has no form.
    """
    if (last.is_interruption and not status.ended) or (last.ends_task and status is TaskStatus.USER_TURN):
        return settled_before(last)
    return _settled_by_status(status, reason, is_limit(last), unknown)


def _settled_by_status(status: TaskStatus, reason: str, at_limit: bool, unknown: bool) -> Settled | None:
    match status:
        case TaskStatus.USER_TURN | TaskStatus.CLIENT_TOOL_TURN | TaskStatus.COMPLETED:
            return COMPLETED
        case TaskStatus.APPROVAL:
            return Settled("incomplete", reason) if unknown else COMPLETED
        case TaskStatus.PAUSED:
            return Settled("incomplete", reason, at_limit=True) if at_limit else None
        case TaskStatus.FAILED | TaskStatus.GOALS_FAILED:
            return Settled("failed", reason)
        case TaskStatus.CANCELLED:
            return Settled("cancelled", reason)
        case TaskStatus.QUEUED | TaskStatus.RUNNING:
            return None


def response_steps(steps: Iterable[TaskStep]) -> tuple[list[TaskStep], bool]:
    """Return the steps of the response that begins with the first of these, and whether another response follows.

    Later steps are not read.
    """
    own: list[TaskStep] = []
    for step in steps:
        if own and begins_response(step, own[-1]):
            return own, True
        own.append(step)
    return own, False
