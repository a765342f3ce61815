"""advance: one pass of a coordinator over one task.

    load ─► check pending work ─► decide (pure) ─► record ─► dispatch ─► turn, tool call ─► commit ─► advance
     ▲                                               │ (fenced)
     └── the epoch has changed ◄─────────────────────┘

A pass may run twice, late, at the same time on another worker, or die after any line. The epoch of the task is its
fencing token: every decision and every commit raises it, and Redis refuses a write with an older one. So a decision is
recorded once per epoch, and a step once per position. The sweeper repeats the pass if recorded work is not done.
"""

from contextlib import suppress
from dataclasses import dataclass

from roboco.domain.history.start_time import ETA, begins
from roboco.domain.inbox.item import Item, Stop, is_held, is_urgent
from roboco.domain.paths import open_path
from roboco.domain.status import TaskStatus
from roboco.domain.team.collaboration import Custom
from roboco.domain.team.team import Team
from roboco.engine.coordinator.actions import carry_out, stay_waiting
from roboco.engine.coordinator.archive import close_again, finish, fold_due
from roboco.engine.coordinator.next_step import NextStep
from roboco.engine.coordinator.pending import CheckResult, Decide, GiveUp, Repeat, Rest, is_message_lost
from roboco.engine.coordinator.pending_calls import PendingCalls
from roboco.engine.coordinator.pending_turn import cancel_turn, check_turn
from roboco.engine.engine import Engine
from roboco.engine.record import inbox_items as items
from roboco.engine.record import rate_tickets as tickets
from roboco.engine.record import recover
from roboco.errors import TransientError
from roboco.ports import Phase, Snapshot, Work

MAX_MOVES = 100
"""The most moves of one pass. If the task needs more, the pass wakes a coordinator for the next ones."""
FAILED_CHECK_DELAY = 5.0
"""The most seconds until the sweeper checks a task after a pass for a message has failed."""


def advance(engine: Engine, task_id: str, ring: bool = False, exhausted: str | None = None) -> None:
    """Make all moves that are possible for the task now. Do nothing if the task is unknown or closed.

    With `ring`, as the sweeper calls it, also apply steps that Redis lacks, and send lost messages again.
    `exhausted` is why the task is given up: its next step reports this.

    If a pass for a message fails, it schedules another one soon. The message announced its inbox item once only, and a
    waiting task may have its next check in an hour.
    """
    with engine.telemetry.work(Work("advance", task_id)):
        try:
            _advance(engine, task_id, ring, exhausted)
        except Exception:
            if not ring:
                with suppress(TransientError):
                    engine.schedule.schedule_no_later_than(task_id, FAILED_CHECK_DELAY)
            raise


def _advance(engine: Engine, task_id: str, ring: bool, exhausted: str | None) -> None:
    for _ in range(MAX_MOVES):
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
    """Make one move. Return True if the task has to be loaded again for another one."""
    if task.phase is Phase.END:
        return not _finish(engine, task_id, task)
    team = engine.teams.get(task_id)
    waiting = items.waiting(engine, task_id, task)
    if exhausted is None:
        match _check(engine, team, task, Pass(task_id, ring, waiting)):
            case Repeat():
                return True
            case Rest():
                return False
            case GiveUp(reason):
                exhausted = reason
            case Decide():
                pass
    tickets.release(engine, team, task_id, task)
    again = carry_out(NextStep(engine, task_id, team, task), waiting, exhausted)
    if fold_due(task.seq - 1):
        engine.histories.fold(task_id)
    return again


def _finish(engine: Engine, task_id: str, task: Snapshot) -> bool:
    """Close the ended task, or remove a closed one from Redis. Return True if it is closed."""
    marker = engine.files.get_versioned(open_path(task_id))
    if marker is not None:
        return finish(engine, task_id, task, marker)
    close_again(engine, task_id, task)
    return True


@dataclass(frozen=True)
class Pass:
    """One pass of a coordinator, or of the sweeper, over a task."""

    task_id: str
    by_sweeper: bool
    items: tuple[Item, ...]
    """The items that wait in the task's inbox."""

    @property
    def urgent(self) -> bool:
        """True if an item cancels the pending work."""
        return any(map(is_urgent, self.items))


def _check(engine: Engine, team: Team, task: Snapshot, current: Pass) -> CheckResult:
    """Check the pending work of the task. Return Decide if the next step can be decided now."""
    task_id, by_sweeper = current.task_id, current.by_sweeper
    if _starts_later(engine, task_id, task, current.items):
        return Rest()
    match task.phase:
        case Phase.TURN:
            return _check_turn(engine, team, task, current)
        case Phase.TOOLS if not current.urgent:
            return PendingCalls(engine, task_id, team, task, current.items).check(redeliver=by_sweeper)
        case Phase.WAIT if not current.items and task.status is not TaskStatus.PAUSED:
            return Repeat() if stay_waiting(engine, task_id, task) else Rest()
        case _ if by_sweeper and isinstance(team.collaboration_model, Custom):
            if is_message_lost(engine, task_id, task):
                engine.dispatcher.advance(task_id)
            return Rest()
        case _:
            return Decide()


def _check_turn(engine: Engine, team: Team, task: Snapshot, current: Pass) -> CheckResult:
    if current.urgent:
        result = cancel_turn(engine, current.task_id, task)
        return _decide_in_pool(engine, team, current) if isinstance(result, Decide) else result
    if is_held(current.items, task.seq) and not task.claimed:
        return _decide_in_pool(engine, team, current)
    return check_turn(engine, current.task_id, team, task, redeliver=current.by_sweeper)


def _starts_later(engine: Engine, task_id: str, task: Snapshot, waiting: tuple[Item, ...]) -> bool:
    """Return True if the start time of the task is not reached, and schedule the next pass for it. A stop counts."""
    if task.seq > 1 or ETA not in task.first.metadata or any(isinstance(item, Stop) for item in waiting):
        return False
    delay = begins(task.first).timestamp() - engine.clock.now()
    if delay <= 0:
        return False
    engine.schedule.put(task_id, delay)
    return True


def _decide_in_pool(engine: Engine, team: Team, current: Pass) -> Rest | Decide:
    """Return Decide, unless the sweeper would run a custom router: then wake a coordinator and return Rest.

    The sweeper is a thread of the worker's main process. User code runs in a pool process only, which may die.
    """
    if not current.by_sweeper or not isinstance(team.collaboration_model, Custom):
        return Decide()
    engine.dispatcher.advance(current.task_id)
    return Rest()
