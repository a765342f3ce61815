"""advance: the coordinator's loop over one task.

    load ─► decide (pure) ─► write the choice down ─► hand it out
     ▲                        │ (conditional)           │ (doorbell)
     └── fence moved ◄────────┘                         └─► turn, tool ─► commit ─► advance

It may run twice, late, at the same time elsewhere, or die after any line: a choice is written once per
epoch, a step once per position, and whatever was written down but not done is found by the sweeper.
"""

import logging
from contextlib import suppress
from dataclasses import dataclass

from roboco.domain.decision.action import AppendStep, CallTools, End, StartTurn, Wait
from roboco.domain.decision.tool_answers import is_changed
from roboco.domain.history.part import brought_by
from roboco.domain.history.start_time import ETA, begins
from roboco.domain.history.step import TaskStep
from roboco.domain.ids import step_id_at
from roboco.domain.inbox.item import Item, Stop, is_held, is_urgent
from roboco.domain.log_text import log_text
from roboco.domain.paths import open_path
from roboco.domain.status import TaskStatus
from roboco.domain.stream.event import StatusChanged
from roboco.domain.team.collaboration import Custom
from roboco.domain.team.team import Team
from roboco.domain.team.tool_difference import CALLS_IN_EVENT, IN_EVENT, ToolDifference
from roboco.engine import notifications as notify
from roboco.engine import usage as broken
from roboco.engine.coordinator import delegate, outage, pending
from roboco.engine.coordinator.archive import archive, close_again, finish, fold_due
from roboco.engine.coordinator.next_step import NextStep
from roboco.engine.engine import Engine
from roboco.engine.record import inbox_items as items
from roboco.engine.record import rate_tickets as tickets
from roboco.engine.record import recover
from roboco.engine.record.attempt_status import show_ends
from roboco.engine.record.tool_listings import tool_differences
from roboco.errors import TransientError
from roboco.ports import Choice, Commit, Phase, Snapshot, Used, Work
from roboco.ports.telemetry import TASKS

_log = logging.getLogger(__name__)

MOVES = 100
"""How many moves one call makes at most; a task that needs more has them made by the next one."""
QUIET = 3600.0
"""Seconds after which a waiting task is looked at although nothing came for it."""
FAILED = 5.0
"""Seconds after which the sweeper looks at a task at the latest if a look on a message has failed."""
UNRECOVERED = 1.0
"""Seconds after which a task is looked at that cannot end before the sweeper has recovered Redis."""
LOGGED_REASON = 1000
"""Characters of a failed task's reason in the log."""


def advance(engine: Engine, task_id: str, ring: bool = False, exhausted: str | None = None) -> None:
    """Do all that can be done for the task now.

    With `ring`, as the sweeper calls it, take over steps that Redis does not know, and hand out again what no
    worker took. `exhausted` says why the task is given up.

    A task that is not known, or has ended, is left alone. If this fails, the sweeper looks at the task soon: what
    came for it has been announced once, and a wait may have put the next look off.
    """
    with engine.telemetry.work(Work("advance", task_id)):
        try:
            _advance(engine, task_id, ring, exhausted)
        except Exception:
            if not ring:
                with suppress(TransientError):
                    engine.schedule.schedule_no_later_than(task_id, FAILED)
            raise


def _advance(engine: Engine, task_id: str, ring: bool, exhausted: str | None) -> None:
    for _ in range(MOVES):
        task = recover.load(engine, task_id)
        if task is None:
            _forget(engine, task_id)
            return
        if ring and recover.catch_up(engine, task_id, task):
            continue
        if not _move(engine, task_id, task, ring, exhausted):
            return
    engine.dispatcher.advance(task_id)


def _forget(engine: Engine, task_id: str) -> None:
    engine.schedule.drop(task_id)
    if engine.files.get(open_path(task_id)) is not None:
        engine.schedule.put(task_id)


def _move(engine: Engine, task_id: str, task: Snapshot, ring: bool, exhausted: str | None) -> bool:
    """Make one move; whether the task has to be looked at again."""
    if task.phase is Phase.END:
        return not _finish(engine, task_id, task)
    team = engine.teams.get(task_id)
    waiting = items.waiting(engine, task_id, task)
    if exhausted is None and _too_early(engine, task_id, task, waiting):
        return False
    if exhausted is None:
        seen_to = _see_to(engine, team, task, Look(task_id, ring, waiting))
        if isinstance(seen_to, bool):
            return seen_to
        exhausted = seen_to
    tickets.release(engine, team, task_id, task)
    again = _carry_out(NextStep(engine, task_id, team, task), waiting, exhausted)
    if fold_due(task.seq - 1):
        engine.histories.fold(task_id)
    return again


def _finish(engine: Engine, task_id: str, task: Snapshot) -> bool:
    """Close the task: whether it is closed. Of a closed task only Redis may still have to forget the state."""
    marker = engine.files.get_versioned(open_path(task_id))
    if marker is not None:
        return finish(engine, task_id, task, marker)
    close_again(engine, task_id, task)
    return True


def _too_early(engine: Engine, task_id: str, task: Snapshot, waiting: tuple[Item, ...]) -> bool:
    """Whether the task was submitted for later, and is not to be stopped: then it is looked at when it begins."""
    if task.seq > 1 or ETA not in task.first.metadata or any(isinstance(item, Stop) for item in waiting):
        return False
    delay = begins(task.first).timestamp() - engine.clock.now()
    if delay <= 0:
        return False
    engine.schedule.put(task_id, delay)
    return True


@dataclass(frozen=True)
class Look:
    """A look at a task for which these items wait; with `ring` it is the sweeper's."""

    task_id: str
    ring: bool
    items: tuple[Item, ...]

    @property
    def urgent(self) -> bool:
        """Whether somebody wants what is being done to end now."""
        return any(map(is_urgent, self.items))


def _see_to(engine: Engine, team: Team, task: Snapshot, look: Look) -> bool | str | None:
    """See to what the task is doing.

    Whether to look again, where nothing is to be decided; else None, or why the pending turn is given up.
    """
    match task.phase:
        case Phase.TURN if look.urgent:
            seen_to = pending.end_turn(engine, look.task_id, task)
            return _left_to_a_child(engine, team, look) if seen_to is None else seen_to
        case Phase.TURN if is_held(look.items, task.seq) and not task.claimed:
            return _left_to_a_child(engine, team, look)
        case Phase.TURN:
            return pending.turn(engine, look.task_id, team, task, look.ring)
        case Phase.TOOLS if not look.urgent:
            calls = pending.PendingCalls(engine, look.task_id, team, task, look.items)
            return False if calls.see_to(look.ring) else None
        case Phase.WAIT if not look.items and task.status is not TaskStatus.PAUSED:
            return _wait_on(engine, look.task_id, task)
        case _ if look.ring and isinstance(team.collaboration_model, Custom):
            if pending.ring_again(engine, look.task_id, task):
                engine.dispatcher.advance(look.task_id)
            return False
        case _:
            return None


def _left_to_a_child(engine: Engine, team: Team, look: Look) -> bool | None:
    """False if the look is the sweeper's and a user's router may be asked, else None.

    The sweeper shares its process with all of a worker: what runs a user's code is left to a child.
    """
    if not look.ring or not isinstance(team.collaboration_model, Custom):
        return None
    engine.dispatcher.advance(look.task_id)
    return False


def _carry_out(next_step: NextStep, waiting: tuple[Item, ...], exhausted: str | None) -> bool:
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
    metadata = dict(action.metadata) | broken.charged(team, task)
    for call in action.given_up:
        delegate.stop(engine, task_id, call, "the task for which it worked has no use for it any more")
        used = delegate.used_so_far(engine, task_id, call)
        told = metadata.get("usage") or {}
        metadata["usage"] = {name: told.get(name, 0) + used.get(name, 0) for name in {*told, *used}}
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
    """Have the board take the step over although another look has chosen something in its next_step."""
    now = engine.board.load(task_id, recover.COORDINATOR_TAIL)
    if now is not None:
        recover.catch_up(engine, task_id, now)


def _wait(engine: Engine, task_id: str, task: Snapshot, action: Wait) -> bool:
    reason = action.route.reason
    if (task.phase, task.status, task.reason) == (Phase.WAIT, action.status, reason):
        return _wait_on(engine, task_id, task)
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
        agent=task.agent if task.used != Used() else "",  # who is charged for attempts that broke
        routing=action.route.record(),
        seen=frozenset(task.item_ids),
    )
    engine.board.choose(task_id, task.epoch, choice, [event])
    return True


def _changes(engine: Engine, task_id: str, task: Snapshot, action: Wait) -> tuple[ToolDifference, ...]:
    """The changed tools of the calls that a person must approve, a bounded piece of each."""
    states = {call_id: task.calls[call_id] for call_id in action.calls if call_id in task.calls}
    ids = [call_id for call_id, state in states.items() if is_changed(state.outcome)]
    return tuple(tool_differences(engine, task_id, ids[:CALLS_IN_EVENT], IN_EVENT))


def _wait_on(engine: Engine, task_id: str, task: Snapshot) -> bool:
    """Archive the waiting task and schedule its next pass. Return True if it needs one now.

    It does if an item has arrived meanwhile or if Redis has lost the task. If a worker has begun to close the task on
    an end that Redis lost, and died, the marker is reopened.
    """
    archive(engine, task_id, task)
    recover.reopen(engine, task_id)
    notify.tell(engine, task_id, task)
    engine.schedule.put(task_id, QUIET)
    now = engine.board.load(task_id, 1)
    return now is None or not set(now.item_ids) <= set(task.item_ids)


def _end(engine: Engine, task_id: str, task: Snapshot, action: End) -> bool:
    """Write down that the task ends. While Redis may lack an item that was accepted, the task goes on for now."""
    run = engine.schedule.recovered(task_id)
    if run is None:
        engine.schedule.put(task_id, UNRECOVERED)
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
        _log.warning("task %s ended as %s: %s", task_id, action.status, log_text(action.reason, LOGGED_REASON))
