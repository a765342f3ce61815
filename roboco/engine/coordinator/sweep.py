"""sweep: run a pass over each task that is due in the schedule. This is the sweeper of every coordinator worker.

    lock ─► schedule intact? ─► due entries ─► pass over each task, alone with its errors
    (one at   │ no: recover     (a batch)      │ fails: backoff, retried
    a time)   │ old: refill                    │ kills its worker again and again: dead letter, the task ends

Every accepted task is in the schedule: a sorted set in Redis with the time of the task's next check. Messages only make
a pass earlier. If a message or a worker is lost, the sweeper repeats the pass when the entry is due.

Redis may lose its last second or all of its data, and a task may be accepted while Redis does not answer. So the
sweeper fills the schedule from the open markers in the workspace: every REFILL_INTERVAL seconds, and whenever Redis was
emptied or restarted.
"""

import logging
from collections.abc import Callable
from functools import partial

from roboco.domain.dead_letter import dead_letter_of_lost_work
from roboco.domain.ids import is_task_id
from roboco.domain.paths import (
    ENTER_PREFIX,
    NOTIFY_MARKERS,
    OPEN_MARKERS,
    RESTART_PREFIX,
    RESUME_PREFIX,
    open_marker_path,
    team_path,
)
from roboco.engine import notifications as notify
from roboco.engine.attempt_counts import reset_attempts
from roboco.engine.coordinator import outage
from roboco.engine.coordinator.actions import IDLE_CHECK_INTERVAL
from roboco.engine.coordinator.advance import advance
from roboco.engine.coordinator.archive import close_again
from roboco.engine.engine import Engine
from roboco.engine.record import recover
from roboco.engine.record.recover import restore_inbox
from roboco.errors import CorruptHistory, TransientError
from roboco.ports.lease_renewals import AttemptLease
from roboco.ports.task_store import Phase

_log = logging.getLogger(__name__)

RunPass = Callable[[Engine, str, bool], None]
BATCH_SIZE = 200
"""The most entries that one sweep processes."""
FOREIGN_TASK_DELAY = 60.0
"""Seconds after which a task that is not in this workspace is tried again."""
REFILL_INTERVAL = 1800.0
"""Seconds between two fillings of the schedule from the workspace."""
FIRST_RETRY_DELAY = 5.0
"""Seconds until the next pass over a task whose pass failed or killed its worker. The delay doubles each time."""
MAX_FAILURES = 10
"""Failures after which a sweep leaves its other entries to the next one."""


def sweep(engine: Engine, lock_seconds: float, run_pass: RunPass = advance) -> int:
    """Process the due entries of the schedule. Return their number, or 0 if another sweeper has the lock.

    The lock lasts `lock_seconds`: if its sweeper dies, the next sweep is delayed by no more. Raise TransientError if
    the schedule or the workspace does not answer, since that affects all tasks. A task that fails delays no other.
    """
    if not engine.schedule.lock(engine.new_token(), lock_seconds):
        return 0
    if not engine.schedule.is_intact():
        _recover_schedule(engine)
    elif not engine.schedule.recently_filled():
        _refill_schedule(engine)
    due, failures = engine.schedule.due(BATCH_SIZE), 0
    for entry in due:
        failures += not _run_isolated(engine, entry, partial(_process_entry, engine, entry, run_pass))
        if failures >= MAX_FAILURES:
            break  # each may have taken a timeout; the failed entries are retried later, after the others
    return len(due)


def _process_entry(engine: Engine, entry: str, run_pass: RunPass) -> None:
    kind, slash, task_id = entry.partition("/")
    if (work := ONE_TIME_WORK.get(kind + slash)) is not None:
        at = engine.schedule.due_at(entry)
        work(engine, task_id)
        engine.schedule.remove(entry, at)  # keep an entry that another sweeper has set since
    elif not notify.redeliver(engine, entry):
        _reconcile(engine, entry, run_pass)


def _run_isolated(engine: Engine, entry: str, work: Callable[[], None]) -> bool:
    """Do the work. If it fails, log the error, schedule the entry for a retry, and return False.

    Raise TransientError if the schedule does not answer either.
    """
    try:
        work()
    except TransientError as error:
        delay = engine.backoff.record_failure(entry)
        _log.error("%s failed; the sweeper retries it in %g s: %s", _description_of(entry), delay, error)
    except Exception:
        delay = engine.backoff.record_failure(entry)
        _log.exception("%s failed; the sweeper retries it in %g s", _description_of(entry), delay)
    else:
        engine.backoff.reset(entry)
        return True
    engine.schedule.set(entry, delay)
    return False


def _description_of(entry: str) -> str:
    kind, slash, task_id = entry.rpartition("/")
    return f"the sweep of task {task_id}" + (f" ({kind})" if slash else "")


def _reconcile(engine: Engine, task_id: str, run_pass: RunPass) -> None:
    """Run a pass over the task. Abandon the task if too many sweepers were lost in such a pass."""
    key = f"pass:{task_id}"
    lost = engine.attempts.start(key)
    if lost is None:
        return
    delay = min(FIRST_RETRY_DELAY * 2.0**lost, IDLE_CHECK_INTERVAL)
    engine.schedule.set(task_id, delay)
    with engine.heartbeat.renewing(AttemptLease(key)):
        if lost < engine.policy.max_attempts:
            try:
                _try_pass(engine, task_id, run_pass, delay)
            except TransientError:
                engine.attempts.finish(key)
                raise
            engine.attempts.finish(key)
        elif _abandon(engine, task_id, lost):
            engine.attempts.finish(key)  # keep the count if that raised: the next sweep abandons the task again


def _try_pass(engine: Engine, task_id: str, run_pass: RunPass, delay: float) -> None:
    failures = f"failed-pass:{task_id}"
    try:
        run_pass(engine, task_id, True)
        engine.attempts.finish(failures)
    except TransientError:
        raise
    except CorruptHistory as error:
        _quarantine(engine, task_id, error)
    except Exception as error:  # a task that fails must not block the others
        failed = engine.attempts.start_without_lease(failures) + 1
        if failed < engine.policy.max_attempts:
            _log.exception("the sweep of task %s failed; the sweeper retries it in %g s", task_id, delay)
            return
        _log.exception("the sweep of task %s failed %d times; a dead letter is stored", task_id, failed)
        engine.dead_letters.add(
            dead_letter_of_lost_work(
                "advance", task_id, "pass", f"{type(error).__name__}: {error}", failed, engine.now()
            )
        )
        engine.schedule.set(task_id, IDLE_CHECK_INTERVAL)


def _quarantine(engine: Engine, task_id: str, error: CorruptHistory) -> None:
    """Store a dead letter: the task cannot continue until an operator restores its files in the workspace.

    A task that is not in this workspace at all belongs to another one. It continues soon after its coordinator starts.
    """
    dead_letter = dead_letter_of_lost_work("advance", task_id, "history", str(error), 1, engine.now())
    engine.dead_letters.add(dead_letter)
    if engine.files.size(team_path(task_id)) is None:
        engine.schedule.set(task_id, FOREIGN_TASK_DELAY)
        _log.error(
            "task %s cannot continue here: %s. The sweeper retries it in %g s", task_id, error, FOREIGN_TASK_DELAY
        )
        return
    engine.schedule.set(task_id, IDLE_CHECK_INTERVAL)
    _log.error(
        "task %s cannot continue, because its history is broken: %s. Restore history.jsonl (or the objects below "
        "history/) from a backup and run: roboco dead-letters requeue %s. Or delete %s to abandon the task",
        task_id,
        error,
        dead_letter.letter_id,
        open_marker_path(task_id),
    )


def _abandon(engine: Engine, task_id: str, lost: int) -> bool:
    """End the task and return True. Return False while Redis waits for its recovery, since no task can end then."""
    if engine.schedule.recovered_instance(task_id) is None:
        return False
    reason = f"{lost} sweepers were lost in a pass over the task"
    _log.error("task %s is abandoned: %s", task_id, reason)
    engine.dead_letters.add(dead_letter_of_lost_work("advance", task_id, "", reason, lost, engine.now()))
    advance(engine, task_id, True, reason)
    return True


def _recover_schedule(engine: Engine) -> None:
    """Schedule a pass over every open task for now. A restarted Redis may have lost the ends of their logs.

    A follower must not receive the number of a lost event twice. So each task gets a new generation of its logs before
    its pass. A task that was closed in the moment that Redis has lost is in the schedule again, without a marker.
    """
    mark = engine.schedule.mark_filling()
    if engine.schedule.was_restarted():
        for task_id in sorted({*engine.schedule.task_ids(), *_marked_task_ids(engine, OPEN_MARKERS)}):
            engine.schedule.set(f"{RESTART_PREFIX}{task_id}", -IDLE_CHECK_INTERVAL)
    fill_schedule(engine, mark, all_now=True)


def _refill_schedule(engine: Engine) -> None:
    """Fill the schedule, unless Redis was restarted meanwhile: then the next sweep recovers it."""
    mark = engine.schedule.mark_filling()
    if engine.schedule.is_intact():
        fill_schedule(engine, mark)


def _start_new_generation(engine: Engine, task_id: str) -> None:
    """Start a new generation of the task's logs, and add its items, of which Redis may have lost some.

    Reset the counts of lost sweepers: Redis may have restored old ones.
    """
    reset_attempts(engine, task_id)
    restore_inbox(engine, task_id)
    recover.reset_logs(engine, task_id)
    task = engine.task_store.load(task_id, 1)
    if task is not None and task.phase is Phase.END and engine.files.get(open_marker_path(task_id)) is None:
        close_again(engine, task_id, task)


def fill_schedule(engine: Engine, mark: str, all_now: bool = False) -> None:
    """Schedule a pass over every open task that the schedule lacks or that has items; with `all_now` over all.

    The `mark` was made before: if Redis was emptied or restarted meanwhile, the next sweep fills the schedule again. A
    task that fails is entered later, alone. After MAX_FAILURES, which may each have taken a timeout, so are the
    others.
    """
    open_tasks, failures = _marked_task_ids(engine, OPEN_MARKERS), 0
    _log.info("the schedule is filled from the workspace: %d open tasks", len(open_tasks))
    for task_id in open_tasks:
        if failures < MAX_FAILURES:
            failures += not _run_isolated(
                engine, f"{ENTER_PREFIX}{task_id}", partial(_enter_task, engine, task_id, all_now)
            )
        else:
            engine.schedule.set(f"{ENTER_PREFIX}{task_id}")
    for task_id in _marked_task_ids(engine, NOTIFY_MARKERS):
        engine.schedule.set_default(notify.schedule_key(task_id))
    engine.schedule.mark_filled(REFILL_INTERVAL, mark)


def _enter_task(engine: Engine, task_id: str, due_now: bool) -> None:
    """Enter the task in the schedule: for now if an item waits or with `due_now`, else unless it has an entry."""
    if restore_inbox(engine, task_id) or due_now:
        engine.schedule.set(task_id)
    else:
        engine.schedule.set_default(task_id)


def _marked_task_ids(engine: Engine, folder: str) -> list[str]:
    """Return the tasks that have a marker in the folder. Skip names that are not task ids."""
    names = engine.files.names(folder)
    if strays := [name for name in names if not is_task_id(name)]:
        _log.warning("skipped %d names below %s that are not task ids: %r", len(strays), folder, strays[:5])
    return [name for name in names if is_task_id(name)]


ONE_TIME_WORK: dict[str, Callable[[Engine, str], None]] = {
    RESTART_PREFIX: _start_new_generation,
    ENTER_PREFIX: partial(_enter_task, due_now=True),
    RESUME_PREFIX: outage.resume_task,
}
"""Work that is done once for a task, by the prefix of its entry in the schedule."""
