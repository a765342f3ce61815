"""retry_task: continue a failed task in a new one, from its last good step.

    failed, no marker ─► lineage.json ─► history: its steps, retry ─► task.json ─► retried_as ─► marker ══ accepted ══►
    (get)                (create)        (begin)                      (create)     (replace)     (create)

A retry is a fork (fork.py) whose id is derived from the failed task and its end. So each end has one retry: of several
at the same time, the first to store its lineage decides on reason, limits and caller, and all of them complete it.

If the client dies before the marker, nothing is accepted, and the next retry, of any caller, completes this one. If it
dies after that, or if Redis or the broker fails then, the sweeper starts the task. The failed task has ended: nothing
of it changes but the field of its summary that names the retry.
"""

from roboco.domain.decision.budget import limit_reached
from roboco.domain.history.lineage import Fork, Retry, parent_of
from roboco.domain.history.state import fold
from roboco.domain.history.step import LIMIT, TaskStep
from roboco.domain.ids import check_task_id, retry_id
from roboco.domain.limits import LimitOverrides
from roboco.domain.status import TaskStatus
from roboco.engine.accept.check_limits import check_limits
from roboco.engine.accept.fork import ForkRequest, fork
from roboco.engine.engine import Engine, WorkspaceRecords
from roboco.engine.record.closed import check_not_closing
from roboco.engine.retry import after_close
from roboco.errors import CorruptHistory, StateConflict


def retry_task(engine: Engine, task_id: str, retry: Retry, by: str | None = None, from_step: int | None = None) -> bool:
    """Continue the failed task in a new one. Return True if this call has created that one. A repetition is harmless.

    Raise NotFound if there is no such task. Raise StateConflict if it has not failed, is a sub-task, would reach a
    limit again, or was retried with another reason or other limits, or if `from_step` is not its last good step. Raise
    TransientError if its end is not complete after some seconds.

    Cost: that of a fork, and one more read of the whole history.
    """
    summary = after_close(engine.clock, lambda: check_not_closing(engine, check_task_id(task_id)))
    if summary.status is not TaskStatus.FAILED:
        remedy = "fork it to continue from one of its steps" if summary.status.ended else "there is nothing to retry"
        raise StateConflict(f"task {task_id!r} has not failed, it is {summary.status}; {remedy}")
    check_limits(engine.workspace, task_id, LimitOverrides.model_validate(retry.limits))
    new_id = retry_id(task_id, summary.steps)
    lineage = Fork(task_id=task_id, seq=summary.steps - 1, created_at=engine.now(), by=by, retry=retry)
    steps = list(engine.workspace.histories.read(task_id))
    if len(steps) != summary.steps or not steps[-1].ends_task:
        raise CorruptHistory(f"task {task_id!r} has failed, but its last step, of {len(steps)}, holds no error")
    _check_retryable(engine.workspace, steps, lineage, from_step)
    created = fork(engine, ForkRequest(task_id, new_id, by=by, retry=retry))
    first = engine.workspace.frozen_teams.fork_of(new_id)
    if first is not None and first.retry != retry.model_copy(update={"item_id": first.retry and first.retry.item_id}):
        raise StateConflict(
            f"task {task_id!r} was retried {f'by {first.by} ' if first.by else ''}at "
            f"{first.created_at:%Y-%m-%d %H:%M:%S} UTC, for another reason or with other limits, as {new_id!r}"
        )
    return created


def _check_retryable(workspace: WorkspaceRecords, steps: list[TaskStep], lineage: Fork, from_step: int | None) -> None:
    """Raise StateConflict if the task is a sub-task, would reach a limit again, or has another last good step."""
    task_id, last = lineage.task_id, steps[-1]
    if (parent := parent_of(task_id, steps[0])) is not None:
        raise StateConflict(
            f"task {task_id!r} is a sub-task, and task {parent.task_id!r} has its result already: retry that task if "
            "it has failed, or fork this one"
        )
    if from_step not in (None, last.seq - 1):
        raise StateConflict(
            f"task {task_id!r} continues from step {last.seq - 1}, its last good one, and not from {from_step}; "
            f"roboco fork {task_id} --seq {from_step} continues from there"
        )
    state = fold(steps).after(lineage.retry_step(task_id, last))
    limits = workspace.frozen_teams.get(task_id).limits.with_overrides(state.limit_overrides)
    agent = last.agent_name if last.by_agent else str(last.metadata.get(LIMIT) or "")
    reached = limit_reached(limits, state, agent, seconds=0.0) if limits.at_limit == "end" else None
    if reached is not None:
        raise StateConflict(
            f"task {task_id!r} would fail again: {reached}; name a higher limit with the retry, as in "
            f"Task.retry(max_steps=...) or roboco retry {task_id} --max-steps N"
        )
