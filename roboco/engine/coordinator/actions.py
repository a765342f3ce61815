"""actions: carry out the action that `decide` has returned.

    AppendStep ─► history ─► commit in Redis ─► mark its inbox items as applied
                  (append)   (fenced)           (put, delete)
    StartTurn, CallTools ─► record ─► dispatch
    Wait, End ─► record the status with its event

A step is committed in two phases: first the workspace takes it, which is the record, then Redis. If the worker dies
between the two, the next pass finds a step that Redis lacks, and applies it. An inbox item is marked last, so it is
never lost. If the worker dies before that, the next pass finds the item in a step, and marks it.
"""

import logging

from roboco.domain.decision.action import AppendStep, CallTools, End, StartTurn, Wait
from roboco.domain.decision.tool_answers import is_changed
from roboco.domain.history.part import brought_by
from roboco.domain.history.step import TaskStep
from roboco.domain.ids import step_id_at
from roboco.domain.inbox.item import Item
from roboco.domain.log_text import log_text
from roboco.domain.status import TaskStatus
from roboco.domain.stream.event import StatusChanged
from roboco.domain.team.team import Team
from roboco.domain.team.tool_difference import CALLS_IN_EVENT, IN_EVENT, ToolDifference
from roboco.engine import notifications as notify
from roboco.engine import usage
from roboco.engine.coordinator import delegate, outage
from roboco.engine.coordinator.archive import archive
from roboco.engine.coordinator.next_step import NextStep
from roboco.engine.engine import Engine
from roboco.engine.record import inbox_items as items
from roboco.engine.record import recover
from roboco.engine.record.attempt_status import show_ends
from roboco.engine.record.tool_listings import tool_differences
from roboco.ports import Choice, Commit, Phase, Snapshot, Used
from roboco.ports.telemetry import TASKS

_log = logging.getLogger(__name__)

IDLE_CHECK_INTERVAL = 3600.0
"""Seconds after which the sweeper checks a waiting task for which nothing has arrived."""
UNRECOVERED_CHECK_DELAY = 1.0
"""Seconds until the next check of a task that cannot end before the sweeper has recovered Redis."""
MAX_LOGGED_REASON = 1000
"""Characters of a failed task's reason in the log."""


def carry_out(next_step: NextStep, waiting: tuple[Item, ...], exhausted: str | None) -> bool:
    """Decide the next action and carry it out. Return True if the task has to be loaded again for another move."""
    engine, task_id, task = next_step.engine, next_step.task_id, next_step.task
    match next_step.decide(waiting, exhausted):
        case AppendStep() as action:
            _append(engine, task_id, next_step.team, task, action)
            return True
        case StartTurn() | CallTools() as action:
            return not next_step.record_and_dispatch(action)
        case Wait() as action:
            outage.await_answer(engine, task_id, next_step.team, waiting)
            return _wait(engine, task_id, task, action)
        case End() as action:
            return _end(engine, task_id, task, action)


def _append(engine: Engine, task_id: str, team: Team, task: Snapshot, action: AppendStep) -> None:
    metadata = dict(action.metadata) | usage.charged(team, task)
    for call in action.given_up:
        delegate.stop(engine, task_id, call, "its parent task does not need the result any more")
        used, before = delegate.used_so_far(engine, task_id, call), metadata.get("usage") or {}
        metadata["usage"] = {name: before.get(name, 0) + used.get(name, 0) for name in {*before, *used}}
    step = TaskStep(
        step_id=step_id_at(task_id, task.seq),
        seq=task.seq,
        agent_name=action.agent_name,
        parts=brought_by(action.parts, step_id_at(task_id, task.seq)),
        created_at=engine.now(),
        metadata=metadata,
    ).sealed(task.state.last_digest)
    stored = engine.histories.append(task_id, step)
    if stored.digest != step.digest:
        recover.catch_up(engine, task_id, task)
        return
    show_ends(engine, task_id, task, step)
    events = recover.taken_over(engine, task_id, task, step, action.told_now)
    if not engine.board.commit(task_id, task.epoch, Commit(step, task.state.after(step), events)):
        _catch_up(engine, task_id)
    for item_id in action.item_ids:
        items.settle(engine, task_id, item_id, step.seq)


def _catch_up(engine: Engine, task_id: str) -> None:
    """Apply the stored step to Redis, although another pass has recorded a different decision meanwhile."""
    now = engine.board.load(task_id, recover.COORDINATOR_TAIL)
    if now is not None:
        recover.catch_up(engine, task_id, now)


def _wait(engine: Engine, task_id: str, task: Snapshot, action: Wait) -> bool:
    reason = action.route.reason
    if (task.phase, task.status, task.reason) == (Phase.WAIT, action.status, reason):
        return stay_waiting(engine, task_id, task)
    changes = _changes(engine, task_id, task, action)
    event = StatusChanged(
        task_id=task_id,
        timestamp=engine.now(),
        status=action.status,
        reason=reason,
        calls=action.calls,
        changes=changes,
    )
    choice = Choice(
        Phase.WAIT,
        action.status,
        reason,
        agent=task.agent if task.used != Used() else "",  # its unfinished replies are charged to it
        routing=action.route.record(),
        seen=frozenset(task.item_ids),
    )
    engine.board.choose(task_id, task.epoch, choice, [event])
    return True


def _changes(engine: Engine, task_id: str, task: Snapshot, action: Wait) -> tuple[ToolDifference, ...]:
    """Return how tools have changed whose calls a person must approve, with a bounded part of each text."""
    states = {call_id: task.calls[call_id] for call_id in action.calls if call_id in task.calls}
    ids = [call_id for call_id, state in states.items() if is_changed(state.outcome)]
    return tuple(tool_differences(engine, task_id, ids[:CALLS_IN_EVENT], IN_EVENT))


def stay_waiting(engine: Engine, task_id: str, task: Snapshot) -> bool:
    """Archive the waiting task and schedule its next pass. Return True if it needs one now.

    It does if an item has arrived meanwhile, or if Redis has lost the task. If a worker began to close the task, and
    died, and Redis lost the end, reopen the marker.
    """
    archive(engine, task_id, task)
    recover.reopen(engine, task_id)
    notify.tell(engine, task_id, task)
    engine.schedule.put(task_id, IDLE_CHECK_INTERVAL)
    now = engine.board.load(task_id, 1)
    return now is None or not set(now.item_ids) <= set(task.item_ids)


def _end(engine: Engine, task_id: str, task: Snapshot, action: End) -> bool:
    """Record the end of the task. Return True if the task has to be loaded again.

    While Redis may lack an accepted inbox item, the task does not end: the sweeper has to recover Redis first.
    """
    run = engine.schedule.recovered(task_id)
    if run is None:
        engine.schedule.put(task_id, UNRECOVERED_CHECK_DELAY)
        return False
    event = recover.ended(engine, task_id, task.state, action.status, action.reason)
    choice = Choice(Phase.END, action.status, action.reason, seen=frozenset(task.item_ids), run=run)
    if engine.board.choose(task_id, task.epoch, choice, [event]) is not None:
        engine.telemetry.note(TASKS, 1, action.status)
        _log_failure(task_id, action)
    return True


def _log_failure(task_id: str, action: End) -> None:
    """Log why the task failed. Only the worker whose decision was recorded calls this, so it is logged once."""
    if action.status in (TaskStatus.FAILED, TaskStatus.GOALS_FAILED):
        _log.warning("task %s ended as %s: %s", task_id, action.status, log_text(action.reason, MAX_LOGGED_REASON))
