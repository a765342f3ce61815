"""sweep: run a pass over each task that is due in the schedule. This is the sweeper of every coordinator worker.

    due entries of a shard ─► claimed ─► pass over the task, alone with its errors ─► next due time
    (any coordinator)         (due again │ fails: backoff, retried
                              later)     │ kills its worker again and again: dead letter, the task ends

Every accepted task is in the schedule: sorted sets in Redis with the time of the task's next check. Messages only make
a pass earlier. If a message or a worker is lost, a sweeper repeats the pass when the entry is due.

All coordinators sweep at the same time. A claim postpones the entry by CLAIM_SECONDS, so that no other sweeper gets it
meanwhile. If the sweeper dies, the entry is due again. If a pass lasts longer than its claim, the lease of its attempt
keeps other sweepers from the task. If a user acts meanwhile, the task is due at once: the new time replaces that of the
claim, and work that removes its entry removes it only at the time of its claim.
"""

import logging
from collections.abc import Callable
from functools import partial

from roboco.domain.paths import (
    EARLY_FILES_PREFIX,
    ENTER_PREFIX,
    ERASE_PREFIX,
    RESTART_PREFIX,
    RESUME_PREFIX,
    open_marker_path,
    team_path,
)
from roboco.engine import notifications as notify
from roboco.engine.accept import conversations, early_files
from roboco.engine.coordinate import outage
from roboco.engine.coordinate.actions import IDLE_CHECK_INTERVAL
from roboco.engine.coordinate.advance import advance
from roboco.engine.coordinate.archive import close_again
from roboco.engine.engine import Engine, reset_attempts, store_dead_letter
from roboco.engine.operate.erase import erase_task
from roboco.engine.record import recover
from roboco.engine.record.recover import restore_inbox
from roboco.errors import CorruptHistory, TransientError
from roboco.ports.lease_renewals import AttemptLease
from roboco.ports.schedule import ClaimedEntry
from roboco.ports.snapshot import Phase

_log = logging.getLogger(__name__)

RunPass = Callable[[Engine, str, bool], None]
CLAIM_SECONDS = 30.0
"""Seconds after which a claimed entry is due again: its sweeper may have died."""
FOREIGN_TASK_DELAY = 60.0
"""Seconds after which a task that is not in this workspace is tried again."""
RETRIES_PER_SECOND = 100
"""Entries that a sweeper retries in a second after the end of an outage."""
FIRST_RETRY_DELAY = 5.0
"""Seconds until the next pass over a task whose pass failed or killed its worker. The delay doubles each time."""


def sweep_shard(engine: Engine, shard: int, limit: int, run_pass: RunPass = advance) -> int:
    """Claim at most `limit` due entries of the shard and process them in turn. Return their number.

    Raise TransientError if the shard does not answer. A task that fails delays no other.
    """
    claimed = engine.tasks.schedule.claim(shard, limit, CLAIM_SECONDS)
    for entry in claimed:
        _run_isolated(engine, entry.name, partial(_process_entry, engine, entry, run_pass))
    return len(claimed)


def _process_entry(engine: Engine, entry: ClaimedEntry, run_pass: RunPass) -> None:
    kind, slash, task_id = entry.name.partition("/")
    if (work := ONE_TIME_WORK.get(kind + slash)) is not None:
        work(engine, task_id)
        engine.tasks.schedule.remove(entry.name, entry.at)  # keep an entry that another process has set since
    elif not notify.redeliver(engine, entry.name):
        _reconcile(engine, entry.name, run_pass)


def _run_isolated(engine: Engine, entry: str, work: Callable[[], None]) -> None:
    """Do the work. If it fails, log the error and schedule the entry for a retry."""
    try:
        work()
    except TransientError as error:
        delay = engine.process.backoff.record_failure(entry)
        _log.error("%s failed; the sweeper retries it in %g s: %s", _description_of(entry), delay, error)
    except Exception:
        delay = engine.process.backoff.record_failure(entry)
        _log.exception("%s failed; the sweeper retries it in %g s", _description_of(entry), delay)
    else:
        if engine.process.backoff.reset(entry):
            _hurry_others(engine)
        return
    engine.tasks.schedule.set(entry, delay)


def _hurry_others(engine: Engine) -> None:
    """Retry the entries that have failed soon, RETRIES_PER_SECOND: one of them has succeeded, so a server answers."""
    for number, entry in enumerate(engine.process.backoff.take_failed()):
        engine.tasks.schedule.schedule_no_later_than(entry, number / RETRIES_PER_SECOND)


def _description_of(entry: str) -> str:
    kind, slash, task_id = entry.rpartition("/")
    return f"the sweep of task {task_id}" + (f" ({kind})" if slash else "")


def _reconcile(engine: Engine, task_id: str, run_pass: RunPass) -> None:
    """Run a pass over the task. Abandon the task if too many sweepers were lost in such a pass."""
    key = f"pass:{task_id}"
    lost = engine.tasks.leases.start_attempt(key)
    if lost is None:  # another sweeper runs a pass over the task, or died in it a moment ago
        engine.tasks.schedule.schedule_no_later_than(task_id, FIRST_RETRY_DELAY)
        return
    delay = min(FIRST_RETRY_DELAY * 2.0 ** min(lost, 20), IDLE_CHECK_INTERVAL)
    engine.tasks.schedule.set(task_id, delay)
    with engine.process.heartbeat.renewing(AttemptLease(key)):
        if lost < engine.policy.max_attempts:
            try:
                finished = (key, *_try_pass(engine, task_id, run_pass, delay))
            except TransientError:
                engine.tasks.leases.finish_attempts(key)
                raise
            engine.tasks.leases.finish_attempts(*finished)
        elif _abandon(engine, task_id, lost):  # if that raises, the count stays: the next sweep abandons it again
            engine.tasks.leases.finish_attempts(key)


def _try_pass(engine: Engine, task_id: str, run_pass: RunPass, delay: float) -> tuple[str, ...]:
    """Run a pass, and count it if it fails. Return the counts that a success resets."""
    failures = f"failed-pass:{task_id}"
    try:
        run_pass(engine, task_id, True)
        return (failures,)
    except TransientError:
        raise
    except CorruptHistory as error:
        _quarantine(engine, task_id, error)
    except Exception as error:  # a task that fails must not block the others
        failed = engine.tasks.leases.count_attempt(failures) + 1
        if failed < engine.policy.max_attempts:
            _log.exception("the sweep of task %s failed; the sweeper retries it in %g s", task_id, delay)
            return ()
        _log.exception("the sweep of task %s failed %d times; a dead letter is stored", task_id, failed)
        store_dead_letter(engine, "advance", task_id, "pass", f"{type(error).__name__}: {error}", failed)
        engine.tasks.schedule.set(task_id, IDLE_CHECK_INTERVAL)
    return ()


def _quarantine(engine: Engine, task_id: str, error: CorruptHistory) -> None:
    """Store a dead letter: the task cannot continue until an operator restores its files in the workspace.

    A task that is not in this workspace at all belongs to another one. It continues soon after its coordinator starts.
    """
    dead_letter = store_dead_letter(engine, "advance", task_id, "history", str(error), 1)
    if engine.workspace.files.size(team_path(task_id)) is None:
        engine.tasks.schedule.set(task_id, FOREIGN_TASK_DELAY)
        _log.error(
            "task %s cannot continue here: %s. The sweeper retries it in %g s", task_id, error, FOREIGN_TASK_DELAY
        )
        return
    engine.tasks.schedule.set(task_id, IDLE_CHECK_INTERVAL)
    _log.error(
        "task %s cannot continue, because its history is broken: %s. Restore history.jsonl (or the objects below "
        "history/) from a backup and run: roboco dead-letters requeue %s. To give it up, move the marker %s away: its "
        "files stay, and it continues if the marker is put back",
        task_id,
        error,
        dead_letter.letter_id,
        open_marker_path(task_id),
    )


def _abandon(engine: Engine, task_id: str, lost: int) -> bool:
    """End the task and return True. Return False while Redis waits for its recovery, since no task can end then."""
    if engine.tasks.schedule.recovered_instance(task_id) is None:
        return False
    reason = f"{lost} sweepers were lost in a pass over the task"
    _log.error("task %s is abandoned: %s", task_id, reason)
    store_dead_letter(engine, "advance", task_id, "", reason, lost)
    advance(engine, task_id, True, reason)
    return True


def _start_new_generation(engine: Engine, task_id: str) -> None:
    """Start a new generation of the task's logs, and add its items, of which Redis may have lost some.

    A follower must not receive the number of a lost event twice. A task that was closed in the moment that Redis has
    lost is in the schedule again, without a marker. Redis may have restored old counts of lost sweepers: reset them.
    """
    reset_attempts(engine.tasks, task_id)
    restore_inbox(engine, task_id)
    recover.reset_logs(engine, task_id)
    engine.tasks.schedule.set(task_id)
    task = engine.tasks.task_store.load(task_id, 1)
    has_ended = task is not None and task.position.phase is Phase.END
    if task is not None and has_ended and engine.workspace.files.get(open_marker_path(task_id)) is None:
        close_again(engine, task_id, task)


def _recover_items(engine: Engine, task_id: str) -> None:
    """Add the items of the task to its inbox: Redis was emptied, perhaps while the task was rebuilt.

    A worker may have restored the inbox before that, and may create the task after that: so add the items also if Redis
    lacks the task. The pass over the task rebuilds it.
    """
    if restore_inbox(engine, task_id) and engine.tasks.task_store.load(task_id, 1) is not None:
        engine.tasks.schedule.set(task_id)


def _expire_unused(engine: Engine, task_id: str) -> None:
    early_files.expire(engine, task_id)
    conversations.expire(engine, task_id)


ONE_TIME_WORK: dict[str, Callable[[Engine, str], None]] = {
    RESTART_PREFIX: _start_new_generation,
    ENTER_PREFIX: _recover_items,
    RESUME_PREFIX: outage.resume_task,
    ERASE_PREFIX: erase_task,
    EARLY_FILES_PREFIX: _expire_unused,
}
"""Work that is done once for a task, by the prefix of its entry in the schedule."""
