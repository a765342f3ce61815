"""actions: carry out the action that `decide` has returned.

    AppendStep ─► history ─► commit in Redis ─► mark its inbox items as applied
                  (append)   (fenced)           (put, delete)
    StartTurn, CallTools ─► record ─► dispatch
    Wait, End ─► record the status with its event ─► End: close the task

A step is committed in two phases: first the workspace takes it, which is the record, then Redis. If the worker dies
between the two, the next pass finds a step that Redis lacks, and applies it. An inbox item is marked last, so it is
never lost: after the next turn or calls were dispatched, or before a wait or an end is recorded. If the worker dies
before that, the next pass finds the item in a step, and marks it.
"""

import logging
from dataclasses import dataclass, replace

from roboco.domain.builtin_tools import DELEGATE
from roboco.domain.decision.action import AppendStep, CallTools, End, StartTurn, Wait
from roboco.domain.decision.tool_answers import needs_approval, needs_change_approval
from roboco.domain.history.part import with_step_id
from roboco.domain.history.state import state_after
from roboco.domain.history.step import TaskStep
from roboco.domain.ids import step_id_at
from roboco.domain.inbox.item import Item, resuming_caller
from roboco.domain.log_text import log_text
from roboco.domain.status import TaskStatus
from roboco.domain.stream.event import StatusChanged
from roboco.domain.team.tool_listing import MAX_EVENT_CALLS, MAX_EVENT_TEXT_CHARS, ToolDifference
from roboco.engine import day_budgets, usage
from roboco.engine import notifications as notify
from roboco.engine.coordinate import approval_times, outage, remote_end
from roboco.engine.coordinate.archive import archive
from roboco.engine.coordinate.delegate import may_be_submitted, start_sub_tasks, stop_sub_task, sub_task_usage
from roboco.engine.coordinate.next_step import NextStep
from roboco.engine.coordinate.pending_turn import Repeat, Rest
from roboco.engine.coordinate.running_entry import index_as
from roboco.engine.coordinate.shop_task import revoke_task
from roboco.engine.engine import Engine, WorkspaceRecords
from roboco.engine.record import recover
from roboco.engine.record.inbox_items import AppliedItems
from roboco.engine.record.recover import report_attempts
from roboco.engine.record.tool_listings import tool_differences
from roboco.ports.snapshot import COORDINATOR_TAIL_LENGTH, Decision, Phase, Snapshot, TokenUsage
from roboco.ports.task_store import Commit
from roboco.ports.telemetry import TASKS

_log = logging.getLogger(__name__)

IDLE_CHECK_INTERVAL = 3600.0
"""Seconds after which the sweeper first checks a waiting task for which nothing has arrived."""
MAX_IDLE_CHECK_INTERVAL = 86_400.0
"""The most seconds between two such checks. The next one follows after as long as the task has waited: they double."""
UNRECOVERED_CHECK_DELAY = 1.0
"""Seconds until the next check of a task that cannot end before the sweeper has recovered Redis."""
MAX_LOGGED_REASON = 1000
"""Characters of a failed task's reason in the log."""


@dataclass(frozen=True)
class Ended:
    """The end of the task is recorded: close it."""

    task: Snapshot
    """The task as it has ended. Only the counters of its logs are those before its end."""


Moved = Repeat | Rest | Ended
"""The task has to be loaded again for another move, rests, or has ended."""


def decide_and_execute(
    next_step: NextStep, pending_items: tuple[Item, ...], give_up_reason: str | None, applied: AppliedItems
) -> "Moved":
    """Decide the next action and carry it out.

    The items of a step that is appended are added to `applied`. The earlier ones are marked at the latest before that.
    """
    engine, task_id, task = next_step.engine, next_step.task_id, next_step.task
    if task.position.status is TaskStatus.PAUSED:
        next_step = replace(next_step, by=resuming_caller(pending_items))
    match next_step.decide(pending_items, give_up_reason):
        case AppendStep() as action:
            applied.mark()
            record = remote_end.record_to_end(engine, next_step.team, task_id, task)
            if remote_end.is_awaited(engine, task_id, task, record):
                return Rest()
            about = {} if record is None else record.metadata()
            _append_step(next_step, replace(action, metadata=about | dict(action.metadata)), pending_items, applied)
            return Repeat()
        case StartTurn() as action:
            return Repeat() if next_step.record_and_dispatch(action) is None else Rest()
        case CallTools() as action:
            return _start_calls(next_step, action)
        case Wait() as action:
            applied.mark()
            outage.register_for_answer(engine.services, task_id, next_step.team, pending_items)
            return Repeat() if _record_wait(next_step, action) else Rest()
        case End() as action:
            applied.mark()
            return _record_end(engine, task_id, task, action)


def _start_calls(next_step: NextStep, action: CallTools) -> Repeat | Rest:
    """Record the calls, dispatch those of workers, and submit the sub-tasks."""
    epoch = next_step.record_and_dispatch(action)
    if epoch is None:
        return Repeat()
    task, task_id = next_step.task, next_step.task_id
    calls = [(task.call_order(task_id, call.id, epoch), call) for call in action.calls if call.tool_name == DELEGATE]
    start_sub_tasks(next_step.engine, next_step.team, task, calls)
    again = action.waits or any(next_step.team.task_tool(call.tool_name) for call in action.calls)
    return Repeat() if again else Rest()


def _append_step(
    next_step: NextStep, action: AppendStep, pending_items: tuple[Item, ...], applied: AppliedItems
) -> None:
    engine, task_id, team, task = next_step.engine, next_step.task_id, next_step.team, next_step.task
    metadata = dict(action.metadata) | usage.unfinished_usage_metadata(team, task)
    for call in may_be_submitted(team, task, action.abandoned):
        if (tool := team.task_tool(call.tool_name)) is not None:
            revoke_task(engine, task_id, task.position.seq - 1, call, tool)
            continue
        stop_sub_task(engine, task_id, call, "its parent task does not need the result any more")
        used, before = sub_task_usage(engine, task_id, call), metadata.get("usage") or {}
        metadata["usage"] = {name: before.get(name, 0) + used.get(name, 0) for name in {*before, *used}}
    step = TaskStep(
        step_id=step_id_at(task_id, task.position.seq),
        seq=task.position.seq,
        agent_name=action.agent_name,
        parts=with_step_id(action.parts, step_id_at(task_id, task.position.seq)),
        created_at=engine.now(),
        metadata=metadata,
    ).sealed(task.state.last_digest)
    stored = engine.workspace.histories.append(task_id, step)
    if stored.digest != step.digest:
        recover.catch_up(engine, task_id, task)
        return
    state = state_after(task.state, step)
    day_budgets.count(engine, task_id, task.steps.first, state, ends_turn=True)
    report_attempts(engine.services.dispatcher, task_id, task, step)
    events = recover.events_on_apply(engine, task_id, task, step, action.unpublished_results)
    if not engine.tasks.task_store.commit(task_id, task.position.epoch, Commit(step, state, events)):
        _apply_stored_steps(engine, task_id)
    elif task.position.status is not TaskStatus.RUNNING or any(
        call.tool_name == DELEGATE or needs_approval(team, call) for call in task.steps.tail[-1].calls
    ):
        index_as(engine, task_id, task, TaskStatus.RUNNING, task.position.epoch + 1)
    applied.add(step, action.item_ids, pending_items)
    day_budgets.count_for_caller(engine, task_id, task.steps.first, state)


def _apply_stored_steps(engine: Engine, task_id: str) -> None:
    """Apply the stored step to Redis, although another pass has recorded a different decision meanwhile."""
    now = engine.tasks.task_store.load(task_id, COORDINATOR_TAIL_LENGTH)
    if now is not None:
        recover.catch_up(engine, task_id, now)


def _record_wait(next_step: NextStep, action: Wait) -> bool:
    engine, task_id, team, task = next_step.engine, next_step.task_id, next_step.team, next_step.task
    reason = approval_times.reminded(engine, team, task, action.route.reason)
    if (task.position.phase, task.position.status, task.position.reason) == (Phase.WAIT, action.status, reason):
        return stay_waiting(engine, task_id, task, approval_times.seconds_left(engine, team, task))
    changes = _tool_changes(engine.workspace, task_id, task, action)
    event = StatusChanged(
        task_id=task_id,
        timestamp=engine.now(),
        status=action.status,
        reason=reason,
        calls=action.calls,
        changes=changes,
        by=action.by or next_step.by,
    )
    charged = task.attempt.unfinished_usage != TokenUsage()  # unfinished replies of its agent
    choice = Decision(
        Phase.WAIT,
        action.status,
        reason,
        agent=task.position.agent if charged else "",
        routing=action.route.record(),
        seen_item_ids=frozenset(task.item_ids),
    )
    engine.tasks.task_store.record_decision(task_id, task.position.epoch, choice, [event])
    return True


def _tool_changes(
    workspace: WorkspaceRecords, task_id: str, task: Snapshot, action: Wait
) -> tuple[ToolDifference, ...]:
    """Return how tools have changed whose calls a person must approve, with a bounded part of each text."""
    states = {call_id: task.calls[call_id] for call_id in action.calls if call_id in task.calls}
    ids = [call_id for call_id, state in states.items() if needs_change_approval(state.outcome)]
    return tuple(tool_differences(workspace, task_id, ids[:MAX_EVENT_CALLS], MAX_EVENT_TEXT_CHARS))


def stay_waiting(engine: Engine, task_id: str, task: Snapshot, at_most: float | None = None) -> bool:
    """Archive the waiting task and schedule its next pass, in `at_most` seconds. Return True if it needs one now.

    It does if an item has arrived meanwhile, if Redis has lost the task, or if another pass has continued it: that one
    may die, and its entry in the schedule was replaced here. If a worker began to close the task, and died, and Redis
    lost the end, reopen the marker.
    """
    archive(engine, task_id, task)
    recover.reopen(engine.workspace, task_id)
    notify.enqueue(engine, task_id, task)
    waited = engine.clock.now() - task.position.dispatched_at
    pause = min(max(waited, IDLE_CHECK_INTERVAL), MAX_IDLE_CHECK_INTERVAL)
    engine.tasks.schedule.set(task_id, pause if at_most is None else min(pause, at_most))
    now = engine.tasks.task_store.load(task_id, 1)
    if now is not None and now.position.epoch == task.position.epoch and set(now.item_ids) <= set(task.item_ids):
        return False
    engine.tasks.schedule.schedule_no_later_than(task_id, engine.policy.redelivery_delay)
    return True


def _record_end(engine: Engine, task_id: str, task: Snapshot, action: End) -> Moved:
    """Record the end of the task.

    While Redis may lack an accepted inbox item, the task does not end: the sweeper has to recover Redis first.
    """
    run = engine.tasks.schedule.recovered_instance(task_id)
    if run is None:
        engine.tasks.schedule.set(task_id, UNRECOVERED_CHECK_DELAY)
        return Rest()
    event = recover.end_event(engine, task_id, task.state, action.status, action.reason)
    day_budgets.count(engine, task_id, task.steps.first, task.state, ends_turn=True)
    choice = Decision(Phase.END, action.status, action.reason, seen_item_ids=frozenset(task.item_ids), instance_id=run)
    epoch = engine.tasks.task_store.record_decision(task_id, task.position.epoch, choice, [event])
    if epoch is None:
        return Repeat()
    engine.services.telemetry.record(TASKS, 1, action.status)
    _log_failure(task_id, action)
    return Ended(task.after_decision(epoch, choice))


def _log_failure(task_id: str, action: End) -> None:
    """Log why the task failed. Only the worker whose decision was recorded calls this, so it is logged once."""
    if action.status in (TaskStatus.FAILED, TaskStatus.GOALS_FAILED):
        _log.warning("task %s ended as %s: %s", task_id, action.status, log_text(action.reason, MAX_LOGGED_REASON))
