"""advance: one pass of a coordinator over one task.

    load ─► check pending work ─► decide (pure) ─► record ─► dispatch ─► turn, tool call ─► commit ─► advance
     ▲                                               │ (fenced)
     └── the epoch has changed ◄─────────────────────┘

A pass may run twice, late, at the same time on another worker, or die after any line. The epoch of the task is its
fencing token: every decision and every commit raises it, and Redis refuses a write with an older one. So a decision is
recorded once per epoch, and a step once per position. The sweeper repeats the pass if recorded work is not done.
"""

from contextlib import suppress
from dataclasses import dataclass, replace

from roboco.domain.history.compaction import compaction_due
from roboco.domain.history.step import ETA, start_time_of
from roboco.domain.inbox.item import Item, Stop, interrupts_work, is_paused
from roboco.domain.paths import open_marker_path
from roboco.domain.status import TaskStatus
from roboco.domain.team.collaboration import Custom
from roboco.domain.team.team import Team
from roboco.engine import day_budgets
from roboco.engine.coordinate import approval_times
from roboco.engine.coordinate.actions import Ended, Moved, decide_and_execute, stay_waiting
from roboco.engine.coordinate.archive import close_again, close_task
from roboco.engine.coordinate.next_step import NextStep
from roboco.engine.coordinate.pending_calls import PendingCalls
from roboco.engine.coordinate.pending_turn import (
    Decide,
    GiveUp,
    PendingWork,
    Repeat,
    Rest,
    cancel_turn,
    check_turn,
    needs_redelivery,
)
from roboco.engine.coordinate.running_entry import index_as
from roboco.engine.engine import Engine, Services, WorkspaceRecords
from roboco.engine.record import inbox_items as items
from roboco.engine.record import rate_tickets as tickets
from roboco.engine.record import recover
from roboco.engine.record.event_archive import archive_running
from roboco.engine.record.inbox_items import AppliedItems
from roboco.engine.task_entries import drop_entry
from roboco.errors import CorruptHistory, Erased, TransientError
from roboco.ports.snapshot import COORDINATOR_TAIL_LENGTH, Phase, Snapshot
from roboco.ports.telemetry import Operation

MAX_MOVES = 100
"""The most moves of one pass. If the task needs more, the pass wakes a coordinator for the next ones."""
FAILED_CHECK_DELAY = 5.0
"""The most seconds until the sweeper checks a task after a pass for a message has failed."""


def advance(engine: Engine, task_id: str, by_sweeper: bool = False, give_up_reason: str | None = None) -> None:
    """Make all moves that are possible for the task now. Do nothing if the task is unknown or closed.

    With `by_sweeper`, as the sweeper calls it, first apply steps that Redis lacks, and send lost messages again. For a
    task that waits then, also add the items of clients that died before they added them: one LIST of its inbox. The
    sweeper does that after an hour, then each time after as long as the task has waited, at least once a day.
    `give_up_reason` is why the task is given up: its next step reports this.

    If a pass for a message fails, it schedules another one soon. The message announced its inbox item once only, and a
    waiting task may have its next check in a day.
    """
    with engine.services.telemetry.operation(Operation("advance", task_id)):
        try:
            _advance(engine, task_id, by_sweeper, give_up_reason)
        except Exception as error:
            if isinstance(error, CorruptHistory | Erased) and recover.erase_again(engine, task_id):
                return  # the task was removed during this pass, or a late client has stored it again
            if not by_sweeper:
                with suppress(TransientError):
                    engine.tasks.schedule.schedule_no_later_than(task_id, FAILED_CHECK_DELAY)
            raise


def _advance(engine: Engine, task_id: str, by_sweeper: bool, give_up_reason: str | None) -> None:
    applied = AppliedItems(engine, task_id)
    if not _make_moves(engine, task_id, by_sweeper, give_up_reason, applied):
        engine.services.dispatcher.advance(task_id)
    applied.mark()


def _make_moves(
    engine: Engine, task_id: str, by_sweeper: bool, give_up_reason: str | None, applied: AppliedItems
) -> bool:
    """Make at most MAX_MOVES moves. Return True if no further one is possible now."""
    must_repair = by_sweeper
    ended: Snapshot | None = None
    for _ in range(MAX_MOVES):
        task = ended or recover.load_task(engine, task_id)
        if task is None:
            _drop_unknown(engine, task_id)
            return True
        day_budgets.count(engine, task_id, task.steps.first, task.state)
        if must_repair and recover.catch_up(engine, task_id, task):
            continue
        if must_repair and task.position.phase is Phase.WAIT and recover.restore_inbox(engine, task_id, task.item_ids):
            must_repair = False
            continue
        must_repair = False
        moved = _make_move(engine, task, Pass(task_id, by_sweeper, applied), give_up_reason)
        if isinstance(moved, Rest):
            if task.position.phase not in (Phase.WAIT, Phase.END):  # those are archived as they wait, or are closed
                _archive_running(engine, task_id, task, by_sweeper)
            return True
        ended = moved.task if isinstance(moved, Ended) else None
    return False


def _archive_running(engine: Engine, task_id: str, task: Snapshot, by_sweeper: bool) -> None:
    """Archive events of a running task. In a sweeper's pass, repair its index entry, too."""
    if by_sweeper:
        index_as(engine, task_id, task, task.position.status, task.position.epoch)
    archive_running(engine, task_id, task)


def _drop_unknown(engine: Engine, task_id: str) -> None:
    engine.tasks.schedule.remove(task_id)
    if engine.workspace.files.get(open_marker_path(task_id)) is not None:
        engine.tasks.schedule.set(task_id)
    else:
        drop_entry(engine.tasks, task_id)


def _make_move(engine: Engine, task: Snapshot, current_pass: "Pass", give_up_reason: str | None) -> Moved:
    """Make one move."""
    task_id, applied = current_pass.task_id, current_pass.applied
    if task.position.phase is Phase.END:
        applied.mark()
        return Rest() if _close(engine, task_id, task) else Repeat()
    team = engine.workspace.frozen_teams.get(task_id)
    task = _with_decisive_tail(engine.workspace, task_id, team, task)
    pending_items = items.pending_items(engine, task_id, task, applied.ids)
    if approval_times.expire_approvals(engine, task_id, team, task):
        return Repeat()
    if give_up_reason is None:
        match _check_pending_work(engine, team, task, replace(current_pass, items=pending_items)):
            case Repeat() | Rest() as result:
                return result
            case GiveUp(reason):
                give_up_reason = reason
            case Decide():
                pass
    tickets.release_tickets(engine.services, team, task_id, task)
    moved = decide_and_execute(NextStep(engine, task_id, team, task), pending_items, give_up_reason, applied)
    if compaction_due(task.position.seq - 1):
        engine.workspace.histories.compact(task_id)
    return moved


def _with_decisive_tail(workspace: WorkspaceRecords, task_id: str, team: Team, task: Snapshot) -> Snapshot:
    """Return the task with all steps on which its router may depend. A custom router may read each step it gets."""
    if isinstance(team.collaboration_model, Custom):
        return workspace.tails.complete(task_id, task, COORDINATOR_TAIL_LENGTH)
    return workspace.tails.complete_for_decision(task_id, task, team.routes_by_run)


def _close(engine: Engine, task_id: str, task: Snapshot) -> bool:
    """Close the ended task, or remove a closed one from Redis. Return True if it is closed."""
    marker = engine.workspace.files.get_versioned(open_marker_path(task_id))
    if marker is None:
        close_again(engine, task_id, task)
        return True
    return close_task(engine, task_id, task, marker)


@dataclass(frozen=True)
class Pass:
    """One pass of a coordinator, or of the sweeper, over a task."""

    task_id: str
    by_sweeper: bool
    applied: AppliedItems
    """The items that this pass has appended."""
    items: tuple[Item, ...] = ()
    """The items that wait in the task's inbox."""

    @property
    def urgent(self) -> bool:
        """True if an item cancels the pending work."""
        return any(map(interrupts_work, self.items))


def _check_pending_work(engine: Engine, team: Team, task: Snapshot, current_pass: Pass) -> PendingWork:
    """Check the pending work of the task. Return Decide if the next step can be decided now."""
    task_id, by_sweeper = current_pass.task_id, current_pass.by_sweeper
    if _starts_later(engine, task_id, task, current_pass.items):
        return Rest()
    match task.position.phase:
        case Phase.TURN:
            return _check_pending_turn(engine, team, task, current_pass)
        case Phase.TOOLS if not current_pass.urgent:
            return _check_pending_calls(engine, team, task, current_pass)
        case Phase.WAIT if not current_pass.items and task.position.status is not TaskStatus.PAUSED:
            if approval_times.is_reminder_due(engine, team, task):
                return Decide()
            left = approval_times.seconds_left(engine, team, task)
            return Repeat() if stay_waiting(engine, task_id, task, left) else Rest()
        case _ if by_sweeper and isinstance(team.collaboration_model, Custom):
            if needs_redelivery(engine, task_id, task):
                engine.services.dispatcher.advance(task_id)
            return Rest()
        case _:
            return Decide()


def _check_pending_calls(engine: Engine, team: Team, task: Snapshot, current_pass: Pass) -> PendingWork:
    task_id = current_pass.task_id
    result = PendingCalls(engine, task_id, team, task, current_pass.items).check(current_pass.by_sweeper)
    if isinstance(result, Rest):
        approval_times.announce(engine, task_id, team, task)
    return result


def _check_pending_turn(engine: Engine, team: Team, task: Snapshot, current_pass: Pass) -> PendingWork:
    if current_pass.urgent:
        result = cancel_turn(engine, current_pass.task_id, task)
        return _defer_to_pool(engine.services, team, current_pass) if isinstance(result, Decide) else result
    if is_paused(current_pass.items, task.position.seq) and not task.attempt.claimed:
        return _defer_to_pool(engine.services, team, current_pass)
    return check_turn(engine, current_pass.task_id, team, task, current_pass.by_sweeper)


def _starts_later(engine: Engine, task_id: str, task: Snapshot, pending_items: tuple[Item, ...]) -> bool:
    """Return True if the start time of the task is not reached, and schedule the next pass for it. A stop counts."""
    if (
        task.position.seq > task.state.imported + 1
        or ETA not in task.steps.first.metadata
        or any(isinstance(item, Stop) for item in pending_items)
    ):
        return False
    delay = start_time_of(task.steps.first.metadata, task.steps.first.created_at).timestamp() - engine.clock.now()
    if delay <= 0:
        return False
    engine.tasks.schedule.set(task_id, delay)
    return True


def _defer_to_pool(services: Services, team: Team, current_pass: Pass) -> Rest | Decide:
    """Return Decide, unless the sweeper would run a custom router: then wake a coordinator and return Rest.

    The sweeper is a thread of the worker's main process. User code runs in a pool process only, which may die.
    """
    if not current_pass.by_sweeper or not isinstance(team.collaboration_model, Custom):
        return Decide()
    services.dispatcher.advance(current_pass.task_id)
    return Rest()
