"""Lineage: the origin of a task that is a fork of another one or works for one.

A retry is a fork with all steps of a failed task, and one more:

    failed task:  ..., last good step, step with the error
    its retry:    ..., last good step, step with the error, step of the retry, next turn, ...

Routers and agents see neither the error nor the step of the retry. In an earlier release, a failed task continued in
its own history, with the same step.
"""

from datetime import datetime
from typing import Any

from roboco.domain.history.part import TextPart
from roboco.domain.history.step import ORCHESTRATOR, RETRY, TOOL_EXECUTOR, TaskStep
from roboco.domain.ids import step_id_at
from roboco.domain.schema import RecordedCaller, RecordModel
from roboco.errors import StateConflict, UsageError


class Parent(RecordModel):
    """The call of another task for which the task `child` works."""

    task_id: str
    call_id: str
    at_seq: int
    step_id: str
    child: str


class Retry(RecordModel):
    """Why a failed task continues, and with which limits."""

    reason: str = ""
    """Why the caller retried the task."""
    limits: dict[str, Any] = {}
    """The fields of `LimitOverrides` that replace limits of the task."""
    item_id: str = ""
    """The id of the request, if its caller named one."""

    def parts(self) -> tuple[TextPart, ...]:
        """Return the parts of the step."""
        return (TextPart(text=f"retried: {self.reason}" if self.reason else "retried"),)


class Fork(RecordModel):
    """The task from which another one was forked at this time."""

    task_id: str
    seq: int
    """The position of the last step that the fork shares."""
    created_at: datetime
    message: str = ""
    """A digest of the fork's first message, or empty."""
    by: RecordedCaller = None
    """The caller that forked it, or None."""
    retry: Retry | None = None
    """The record of a retry; None for any other fork."""

    def retry_step(self, task_id: str, last: TaskStep) -> TaskStep:
        """Return the step of the retry with this task id. The same lineage and last step always give the same one."""
        retry = self.retry or Retry()
        by = {} if self.by is None else {"by": self.by}
        return TaskStep(
            step_id=step_id_at(task_id, last.seq + 1),
            seq=last.seq + 1,
            agent_name=ORCHESTRATOR,
            parts=retry.parts(),
            created_at=self.created_at,
            metadata=by | {RETRY: retry.model_dump(mode="json", exclude_defaults=True)},
        ).sealed(last.digest)


def parent_of(task_id: str, first: TaskStep) -> Parent | None:
    """Return the call for which the task works, or None if it is not a sub-task.

    A fork of a sub-task is not a sub-task.
    """
    record: Any = first.metadata.get("parent")
    if record is None or record.get("child") != task_id:
        return None
    return Parent.model_validate(record)


def fork_prefix(steps: list[TaskStep], seq: int | None) -> list[TaskStep]:
    """Return the first steps of a task that a fork of it begins with: up to and including position `seq`.

    Without `seq`, return all steps except the error that ended the task, and the last attempt at goals that failed.
    Calls are kept with their results, so that none is made twice. Raise UsageError if there is no such step, or if the
    task ended there.
    """
    if seq is None:
        steps = _without_final_error(steps)
        seq = steps[-1].seq
    if not 0 <= seq < len(steps):
        raise UsageError(f"seq: no step {seq}, the task has the steps 0 to {len(steps) - 1}")
    end = seq + 2 if steps[seq].calls else seq + 1
    if end > len(steps):
        raise StateConflict(f"seq: step {seq} has calls without results; wait for them, or fork at an earlier step")
    if steps[end - 1].ends_task:
        raise UsageError(f"seq: step {seq} ended the task; fork at an earlier one")
    return steps[:end]


def _without_final_error(steps: list[TaskStep]) -> list[TaskStep]:
    """Return the steps without the error that ended the task.

    For failed goals, leave out the last reminder and the last attempt too; for the failed turn of a function or map,
    its calls with their results.
    """
    error = steps[-1].error if steps[-1].ends_task else None
    while len(steps) > 1 and steps[-1].ends_task:
        steps = steps[:-1]
    if len(steps) > 2 and steps[-1].agent_name == TOOL_EXECUTOR and (steps[-2].begins_function or steps[-2].is_map):
        return steps[:-2]
    if error is None or error.code != "goals":
        return steps
    reminder = next((step.seq for step in reversed(steps) if step.agent_name == ORCHESTRATOR), None)
    if reminder is not None:
        return steps[:reminder]
    return steps[:-1] if len(steps) > 1 and steps[-1].by_agent else steps


def retry_of(step: TaskStep) -> Retry | None:
    """Return the record of the retry that the step is, or None if it is none."""
    if step.agent_name != ORCHESTRATOR or RETRY not in step.metadata:
        return None
    return Retry.model_validate(step.metadata[RETRY])
