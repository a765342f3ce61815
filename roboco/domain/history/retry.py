"""Retry: the record of a retry, in the lineage of the task with which a failed one continues, and in a step of it.

    failed task:  ..., last good step, step with the error
    its retry:    ..., last good step, step with the error, step of the retry, next turn, ...

The retry begins with all steps of the failed task. Routers and agents see neither the error nor the step of the retry.
In an earlier release, a failed task continued in its own history, with the same step.
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
    item_id: str = ""
    """The id of the request, if its caller named one. A bulk control knows its own retries by it."""

    def parts(self) -> tuple[TextPart, ...]:
        """Return the parts of the step."""
        return (TextPart(text=f"retried: {self.reason}" if self.reason else "retried"),)


def retry_of(step: TaskStep) -> Retry | None:
    """Return the record of the retry that the step is, or None if it is none."""
    if step.agent_name != ORCHESTRATOR or RETRY not in step.metadata:
        return None
    return Retry.model_validate(step.metadata[RETRY])
