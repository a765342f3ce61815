"""Retry: the record of a retry, in the metadata of the step with which a failed task continues.

    ..., last good step, step with the error ══ failed ══ step of the retry, next turn, ...

The history is append-only, so the error stays, and the retry is one more step. Routers and agents see neither of them.
"""

from typing import Any

from roboco.domain.history.part import TextPart
from roboco.domain.history.step import ORCHESTRATOR, RETRY, TaskStep
from roboco.domain.schema import RecordModel


class Retry(RecordModel):
    """Why a failed task continues, and with which limits."""

    reason: str = ""
    """Why the caller retried the task."""
    limits: dict[str, Any] = {}
    """The fields of `LimitOverrides` that replace limits of the task."""
    expired_items: tuple[str, ...] = ()
    """The ids of stops and interruptions that the task had not applied when it failed. They have no effect."""

    def parts(self) -> tuple[TextPart, ...]:
        """Return the parts of the step."""
        return (TextPart(text=f"retried: {self.reason}" if self.reason else "retried"),)


def retry_of(step: TaskStep) -> Retry | None:
    """Return the record of the retry that the step is, or None if it is none."""
    if step.agent_name != ORCHESTRATOR or RETRY not in step.metadata:
        return None
    return Retry.model_validate(step.metadata[RETRY])
