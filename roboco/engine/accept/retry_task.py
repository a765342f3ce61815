"""retry_task: continue a failed task under the same id, from its last good step.

    failed, no marker ─► schedule ─► step ─► applied/ ─► marker ══ accepted ══► task.json ─► Redis ─► wake-up message
    (get)                (put)       (append) (create)   (create)               (replace)   (commit)

The step follows the error that ended the task. Its position can be written once, so of several retries at the same time
one wins, and the others are refused with its caller. Steps stay as they are: routers and agents skip the error.

If the client dies before the step, nothing has changed. If it dies after the step, the sweeper finds the step through
the schedule, unless Redis loses it, and completes the retry; so does the next retry, of any caller. If the client
dies after the marker, or if Redis or the broker fails then, the sweeper continues the task: it applies the step, or
rebuilds the task from its workspace.

The marker is created after the coordinators have removed that of the end. So the parent, the receivers and the task
index have the end before the task continues. Another end follows, with its own notifications.
"""

from itertools import islice

from roboco.domain.decision.budget import is_time_limit, limit_reached
from roboco.domain.history.lineage import parent_of
from roboco.domain.history.retry import Retry
from roboco.domain.history.state import MAX_RECENT_ITEMS, TaskState, fold
from roboco.domain.history.step import LIMIT, ORCHESTRATOR, RETRY, TaskStep
from roboco.domain.ids import check_task_id, step_id_at
from roboco.domain.inbox.item import Interrupt, RetryRequest, Stop, parse_item
from roboco.domain.limits import LimitOverrides
from roboco.domain.paths import inbox_path, item_path, open_marker_path
from roboco.domain.status import TaskStatus
from roboco.domain.task_summary import TaskSummary
from roboco.engine.accept.accept_item import check_idempotent, naming_id, stored_item
from roboco.engine.accept.check_limits import check_limits
from roboco.engine.accept.fallback import falling_back_to_sweeper
from roboco.engine.engine import Engine
from roboco.engine.record import recover
from roboco.engine.retry import TaskClosing, after_close
from roboco.engine.task_entries import index_as
from roboco.engine.tombstones import check_not_erasing
from roboco.errors import CorruptHistory, StateConflict
from roboco.ports.task_store import Phase

MAX_EXPIRED_ITEMS = MAX_RECENT_ITEMS - 1
"""The most stops and interruptions that expire at a retry: the state of a task remembers them beside the retry."""


def retry_task(engine: Engine, task_id: str, request: RetryRequest, from_step: int | None = None) -> None:
    """Continue the failed task. A repetition with the same item id changes nothing.

    Raise NotFound if there is no such task. Raise StateConflict if it has not failed, is a sub-task, would reach a
    limit again, or was retried by another request, or if `from_step` is not its last good step. Raise TransientError
    if its end is not complete after some seconds.

    Cost: some ten requests to the workspace, and a read of the whole history if Redis does not have the task any more.
    """
    summary = engine.summaries.require(check_task_id(task_id))
    check_not_erasing(engine.files, task_id)
    stored_before = stored_item(engine, task_id, request.item_id)
    if stored_before is None:
        check_limits(engine, task_id, LimitOverrides.model_validate(request.limits))
    else:
        check_idempotent(request, stored_before)
        if not summary.status.ended or stored_before.applied_at_seq != summary.steps:
            return
    last, winner = after_close(engine.clock, lambda: _ending(engine, task_id, engine.summaries.require(task_id)))
    if winner is None:
        _check_from(task_id, last, from_step)
        step = _step_of(engine, task_id, last, request)
        engine.schedule.set(task_id, engine.policy.redelivery_delay)  # before the step: a crash after it is found soon
        with naming_id(request):
            winner = engine.histories.append(task_id, step)
    with naming_id(request):
        recover.store_retry(engine, task_id, winner)
        check_idempotent(request, stored_item(engine, task_id, request.item_id))
    with falling_back_to_sweeper(task_id):
        _continue(engine, task_id)
    if winner.metadata.get("item_id") != request.item_id:
        raise StateConflict(f"task {task_id!r} {_retried(winner)}; it continues with that retry")


def _ending(engine: Engine, task_id: str, summary: TaskSummary) -> tuple[TaskStep, TaskStep | None]:
    """Return the step that ended the task, and the step of a retry that has begun already.

    Raise StateConflict if the task has not failed, and TaskClosing if its end is not complete.
    """
    if summary.status is not TaskStatus.FAILED:
        raise _not_failed(engine, task_id, summary)
    is_open = engine.files.get(open_marker_path(task_id)) is not None
    steps = list(islice(engine.histories.read(task_id, summary.steps - 1), 2))
    if not steps or not steps[0].ends_task:
        raise CorruptHistory(f"task {task_id!r} has failed, but step {summary.steps - 1} of its history holds no error")
    if len(steps) > 1:
        return steps[0], steps[1]
    if is_open:
        raise TaskClosing(f"task {task_id!r} is being closed; retry it again in a moment")
    return steps[0], None


def _check_from(task_id: str, last: TaskStep, from_step: int | None) -> None:
    """Raise StateConflict unless `from_step` is None, or the position of the last good step.

    A task does not continue from an earlier step: the history is append-only. Agents would have to forget later steps,
    while their tools have run, messages in them have been accepted, and followers have shown them.
    """
    if from_step is None or from_step == last.seq - 1:
        return
    fork = f"roboco fork {task_id} --seq {from_step}"
    if from_step >= last.seq:
        raise StateConflict(
            f"task {task_id!r} failed at step {last.seq}, and step {from_step} is not before it: its last good step is "
            f"{last.seq - 1}"
        )
    raise StateConflict(
        f"task {task_id!r} continues from step {last.seq - 1}, its last good one, and not from {from_step}: the steps "
        f"after that have been executed and published, and a history is never changed; {fork} continues from there in "
        "a new task, and Task.retry() without a step keeps them"
    )


def _not_failed(engine: Engine, task_id: str, summary: TaskSummary) -> StateConflict | TaskClosing:
    """Return the error of a task that has another status than `failed`."""
    if summary.status.ended:
        return StateConflict(
            f"task {task_id!r} has not failed, it is {summary.status}: only a failed task can be retried; fork it to "
            "continue from one of its steps in a new task"
        )
    task = engine.task_store.load(task_id, MAX_RECENT_ITEMS)
    steps = [] if task is None else list(task.tail)
    if task is not None and task.phase is Phase.END:
        steps = list(islice(engine.histories.read(task_id, task.seq), 1))  # a retry that is not applied yet
        if not steps:
            return TaskClosing(f"task {task_id!r} is being closed; retry it again in a moment")
    retries = [step for step in steps if step.is_retry]
    before = f": it {_retried(retries[-1])}" if retries else ""
    status = summary.status if task is None or task.phase is Phase.END else task.status
    return StateConflict(f"task {task_id!r} has not failed, it is {status}{before}; there is nothing to retry")


def _retried(step: TaskStep) -> str:
    by = step.metadata.get("by")
    return f"was retried {f'by {by} ' if by else ''}at {step.created_at:%Y-%m-%d %H:%M:%S} UTC"


def _step_of(engine: Engine, task_id: str, last: TaskStep, request: RetryRequest) -> TaskStep:
    """Return the step of the retry. Raise StateConflict if the task cannot continue with it."""
    first = next(engine.histories.read(task_id))
    if (parent := parent_of(task_id, first)) is not None:
        raise StateConflict(
            f"task {task_id!r} is a sub-task, and task {parent.task_id!r} has its result already: retry that task if "
            "it has failed, or fork this one"
        )
    retry = Retry(reason=request.reason, limits=request.limits, expired_items=_expired_items(engine, task_id))
    step = TaskStep(
        step_id=step_id_at(task_id, last.seq + 1),
        seq=last.seq + 1,
        agent_name=ORCHESTRATOR,
        parts=retry.parts(),
        created_at=request.created_at,
        metadata=request.origin() | {RETRY: retry.model_dump(mode="json", exclude_defaults=True)},
    ).sealed(last.digest)
    _check_limits_suffice(engine, task_id, last, step)
    return step


def _expired_items(engine: Engine, task_id: str) -> tuple[str, ...]:
    """Return the ids of stops and interruptions that arrived as the task failed: they were about the work until then.

    Messages, pauses and changes of limits of that moment are applied after the retry.
    """
    names = engine.files.names(inbox_path(task_id))
    data = engine.files.get_many([item_path(task_id, name.removesuffix(".json")) for name in names])
    items = [parse_item(one) for one in data if one is not None]
    return tuple(item.item_id for item in items if isinstance(item, Stop | Interrupt))[:MAX_EXPIRED_ITEMS]


def _check_limits_suffice(engine: Engine, task_id: str, last: TaskStep, step: TaskStep) -> None:
    """Raise StateConflict if the task would end at a limit before its next turn. Its seconds count from the retry."""
    state = _state_before(engine, task_id, step.seq).after(step)
    limits = engine.frozen_teams.get(task_id).limits.with_overrides(state.limit_overrides)
    if limits.at_limit != "end":
        return
    agent = last.agent_name if last.by_agent else str(last.metadata.get(LIMIT) or "")
    reached = limit_reached(limits, state, agent, seconds=0.0)
    error = last.error
    if error is not None and error.code == LIMIT and "limits" not in step.metadata[RETRY]:
        reached = reached or (None if is_time_limit(error.message) else error.message)
    if reached is not None:
        raise StateConflict(
            f"task {task_id!r} would fail again: {reached}; name a higher limit with the retry, as in "
            f"Task.retry(max_steps=...) or roboco retry {task_id} --max-steps N"
        )


def _state_before(engine: Engine, task_id: str, seq: int) -> TaskState:
    """Return the state of the history before this position."""
    task = engine.task_store.load(task_id, 1)
    return task.state if task is not None and task.seq == seq else fold(islice(engine.histories.read(task_id), seq))


def _continue(engine: Engine, task_id: str) -> None:
    """Apply the retry in Redis, and wake a coordinator."""
    task = recover.load_task(engine, task_id)
    if task is not None and task.phase is Phase.END and recover.catch_up(engine, task_id, task):
        task = recover.load_task(engine, task_id)
    if task is not None and task.status is TaskStatus.RUNNING:
        index_as(engine, task_id, task, TaskStatus.RUNNING, task.epoch)
    engine.dispatcher.advance(task_id)
