"""Interruptions without a message: the effect that is recorded, and the steps to which it refers."""

from collections.abc import Sequence
from typing import Literal

from roboco.domain.history.step import NEW_LIMITS, USER, TaskStep

INTERRUPTED_BY_USER = "interrupted by the user"
"""The text of the step of an interruption, and the reason for which the task then waits."""

InterruptionEffect = Literal["reply_ended", "calls_closed", "turn_replaced", "nothing_running"]
"""The work that an interruption without a message has ended: the reply of an agent, open calls, a turn without text."""


def interrupted_step(steps: Sequence[TaskStep]) -> TaskStep | None:
    """Return the step with the work that an interruption after these steps has ended, or None if there is none.

    Messages that had waited in the queue, and changes of limits, may follow that step.
    """
    return next((step for step in reversed(steps) if not _is_applied_between(step)), None)


def _is_applied_between(step: TaskStep) -> bool:
    """Return True if the step may be applied between the work and the interruption that has ended it."""
    return (step.agent_name == USER and not step.metadata.get("interrupts")) or NEW_LIMITS in step.metadata


def step_or_interruption_after(steps: Sequence[TaskStep], seq: int) -> TaskStep | None:
    """Return the step after this position, or the interruption that follows it after messages of the queue, or None."""
    following = (steps[index] for index in range(seq + 1, len(steps)))
    first = last = next(following, None)
    while last is not None and last.agent_name == USER and not last.metadata.get("interrupts"):
        last = next(following, None)
    return last if last is not None and last.is_interruption else first
