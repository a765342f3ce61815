"""sweep: run a pass over each task that is due in the schedule. This is the sweeper of every coordinator worker.

    lock ─► schedule intact? ─► due entries ─► pass over each task, alone with its errors
    (one at   │ no: recover     (a batch)      │ fails: backoff, retried
    a time)   │ old: refill                    │ kills its worker again and again: dead letter, the task ends

Every accepted task is in the schedule: a sorted set in Redis with the time of the task's next check. Messages only make
a pass earlier. If a message or a worker is lost, the sweeper repeats the pass when the entry is due.

Redis may lose its last second or all of its data, and a task may be accepted while Redis does not answer. So the
sweeper fills the schedule from the open markers in the workspace: every REFILL seconds, and whenever Redis was
emptied or restarted.
"""

import logging
from collections.abc import Callable
from functools import partial

from roboco.domain.dead_letter import lost_work
from roboco.domain.ids import is_task_id
from roboco.domain.paths import ENTER, NOTIFY, OPEN, RESTART, RESUME, open_path, team_path
from roboco.engine import notifications as notify
from roboco.engine.coordinator import outage
from roboco.engine.coordinator.actions import IDLE_CHECK_INTERVAL
from roboco.engine.coordinator.advance import advance
from roboco.engine.coordinator.archive import close_again
from roboco.engine.engine import Engine
from roboco.engine.record import recover
from roboco.engine.record.inbox_items import readd_from_workspace
from roboco.errors import CorruptHistory, TransientError
from roboco.ports import Phase

_log = logging.getLogger(__name__)

Look = Callable[[Engine, str, bool], None]
BATCH = 200
"""The most entries that one sweep processes."""
ELSEWHERE = 60.0
"""Seconds after which a task that is not in this workspace is tried again."""
REFILL = 1800.0
"""Seconds between two fillings of the schedule from the workspace."""
RETRY = 5.0
"""Seconds until the next pass over a task whose pass failed or killed its worker. The delay doubles each time."""
MOST_FAILURES = 10
"""Failures after which a sweep leaves its other entries to the next one."""
LOOKS = ("pass", "failed-pass", "router")
"""The kinds of attempts that are counted for a task."""


def sweep(engine: Engine, seconds: float, look: Look = advance) -> int:
    """Process the due entries of the schedule. Return their number, or 0 if another sweeper has the lock.

    The lock lasts `seconds`: if its sweeper dies, the next sweep is delayed by no more. Raise TransientError if
    the schedule or the workspace does not answer, since that affects all tasks. A task that fails delays no other.
    """
    if not engine.schedule.lock(engine.token(), seconds):
        return 0
    if not engine.schedule.intact():
        _recover(engine)
    elif not engine.schedule.fresh():
        _refill(engine)
    due, failures = engine.schedule.due(BATCH), 0
    for entry in due:
        failures += not _isolated(engine, entry, partial(_attend, engine, entry, look))
        if failures >= MOST_FAILURES:
            break  # each may have taken a timeout; the failed entries are retried later, after the others
    return len(due)


def _attend(engine: Engine, entry: str, look: Look) -> None:
    kind, slash, task_id = entry.partition("/")
    if (work := ONCE.get(kind + slash)) is not None:
        at = engine.schedule.at(entry)
        work(engine, task_id)
        engine.schedule.drop(entry, at)  # keep an entry that another sweeper has set since
    elif not notify.ring(engine, entry):
        _look_at(engine, entry, look)


def _isolated(engine: Engine, entry: str, work: Callable[[], None]) -> bool:
    """Do the work. If it fails, log the error, schedule the entry for a retry, and return False.

    Raise TransientError if the schedule does not answer either.
    """
    try:
        work()
    except TransientError as error:
        delay = engine.backoff.fail(entry)
        _log.error("%s failed; the sweeper retries it in %g s: %s", _named(entry), delay, error)
    except Exception:
        delay = engine.backoff.fail(entry)
        _log.exception("%s failed; the sweeper retries it in %g s", _named(entry), delay)
    else:
        engine.backoff.succeed(entry)
        return True
    engine.schedule.put(entry, delay)
    return False


def _named(entry: str) -> str:
    kind, slash, task_id = entry.rpartition("/")
    return f"the sweep of task {task_id}" + (f" ({kind})" if slash else "")


def _look_at(engine: Engine, task_id: str, look: Look) -> None:
    """Run a pass over the task. Abandon the task if too many sweepers were lost in such a pass."""
    key = f"pass:{task_id}"
    lost = engine.attempts.begin(key)
    if lost is None:
        return
    pause = min(RETRY * 2.0**lost, IDLE_CHECK_INTERVAL)
    engine.schedule.put(task_id, pause)
    with engine.heartbeat.renewing(lambda: engine.attempts.renew(key), lambda: None):
        if lost < engine.policy.attempts:
            try:
                _try(engine, task_id, look, pause)
            except TransientError:
                engine.attempts.end(key)
                raise
            engine.attempts.end(key)
        elif _give_up(engine, task_id, lost):
            engine.attempts.end(key)  # keep the count if that raised: the next sweep abandons the task again


def _try(engine: Engine, task_id: str, look: Look, pause: float) -> None:
    failures = f"failed-pass:{task_id}"
    try:
        look(engine, task_id, True)
        engine.attempts.end(failures)
    except TransientError:
        raise
    except CorruptHistory as error:
        _put_aside(engine, task_id, error)
    except Exception as error:  # a task that fails must not block the others
        failed = engine.attempts.count(failures) + 1
        if failed < engine.policy.attempts:
            _log.exception("the sweep of task %s failed; the sweeper retries it in %g s", task_id, pause)
            return
        _log.exception("the sweep of task %s failed %d times; a dead letter is stored", task_id, failed)
        engine.dead.add(lost_work("advance", task_id, "pass", f"{type(error).__name__}: {error}", failed, engine.now()))
        engine.schedule.put(task_id, IDLE_CHECK_INTERVAL)


def _put_aside(engine: Engine, task_id: str, error: CorruptHistory) -> None:
    """Store a dead letter: the task cannot continue until an operator restores its files in the workspace.

    A task that is not in this workspace at all belongs to another one. It continues soon after its coordinator starts.
    """
    letter = lost_work("advance", task_id, "history", str(error), 1, engine.now())
    engine.dead.add(letter)
    if engine.files.size(team_path(task_id)) is None:
        engine.schedule.put(task_id, ELSEWHERE)
        _log.error("task %s cannot continue here: %s. The sweeper retries it in %g s", task_id, error, ELSEWHERE)
        return
    engine.schedule.put(task_id, IDLE_CHECK_INTERVAL)
    _log.error(
        "task %s cannot continue, because its history is broken: %s. Restore history.jsonl (or the objects below "
        "history/) from a backup and run: roboco dead-letters requeue %s. Or delete %s to abandon the task",
        task_id,
        error,
        letter.letter_id,
        open_path(task_id),
    )


def _give_up(engine: Engine, task_id: str, lost: int) -> bool:
    """End the task and return True. Return False while Redis waits for its recovery, since no task can end then."""
    if engine.schedule.recovered(task_id) is None:
        return False
    reason = f"{lost} sweepers were lost in a pass over the task"
    _log.error("task %s is abandoned: %s", task_id, reason)
    engine.dead.add(lost_work("advance", task_id, "", reason, lost, engine.now()))
    advance(engine, task_id, True, reason)
    return True


def _recover(engine: Engine) -> None:
    """Schedule a pass over every open task for now. A restarted Redis may have lost the ends of their logs.

    A follower must not receive the number of a lost event twice. So each task gets a new generation of its logs before
    its pass. A task that was closed in the moment that Redis has lost is in the schedule again, without a marker.
    """
    mark = engine.schedule.prepare()
    if engine.schedule.restarted():
        for task_id in sorted({*engine.schedule.known(), *_task_ids(engine, OPEN)}):
            engine.schedule.put(f"{RESTART}{task_id}", -IDLE_CHECK_INTERVAL)
    fill_schedule(engine, mark, all_now=True)


def _refill(engine: Engine) -> None:
    """Fill the schedule, unless Redis was restarted meanwhile: then the next sweep recovers it."""
    mark = engine.schedule.prepare()
    if engine.schedule.intact():
        fill_schedule(engine, mark)


def _begin_again(engine: Engine, task_id: str) -> None:
    """Start a new generation of the task's logs, and add its items, of which Redis may have lost some.

    Reset the counts of lost sweepers: Redis may have restored old ones.
    """
    for kind in LOOKS:
        engine.attempts.end(f"{kind}:{task_id}")
    readd_from_workspace(engine, task_id)
    recover.begin_again(engine, task_id)
    task = engine.board.load(task_id, 1)
    if task is not None and task.phase is Phase.END and engine.files.get(open_path(task_id)) is None:
        close_again(engine, task_id, task)


def fill_schedule(engine: Engine, mark: str, all_now: bool = False) -> None:
    """Schedule a pass over every open task that the schedule lacks or that has items; with `all_now` over all.

    The `mark` was made before: if Redis was emptied or restarted meanwhile, the next sweep fills the schedule again. A
    task that fails is entered later, alone. After MOST_FAILURES, which may each have taken a timeout, so are the
    others.
    """
    open_tasks, failures = _task_ids(engine, OPEN), 0
    _log.info("the schedule is filled from the workspace: %d open tasks", len(open_tasks))
    for task_id in open_tasks:
        if failures < MOST_FAILURES:
            failures += not _isolated(engine, f"{ENTER}{task_id}", partial(_enter, engine, task_id, all_now))
        else:
            engine.schedule.put(f"{ENTER}{task_id}")
    for task_id in _task_ids(engine, NOTIFY):
        engine.schedule.add(notify.entry(task_id))
    engine.schedule.begin(REFILL, mark)


def _enter(engine: Engine, task_id: str, now: bool) -> None:
    """Enter the task in the schedule: for now if an item waits or with `now`, else unless it has an entry."""
    if readd_from_workspace(engine, task_id) or now:
        engine.schedule.put(task_id)
    else:
        engine.schedule.add(task_id)


def _task_ids(engine: Engine, folder: str) -> list[str]:
    """Return the tasks that have a marker in the folder. Skip names that are not task ids."""
    names = engine.files.names(folder)
    if strays := [name for name in names if not is_task_id(name)]:
        _log.warning("skipped %d names below %s that are not task ids: %r", len(strays), folder, strays[:5])
    return [name for name in names if is_task_id(name)]


ONCE: dict[str, Callable[[Engine, str], None]] = {
    RESTART: _begin_again,
    ENTER: partial(_enter, now=True),
    RESUME: outage.resume,
}
"""Work that is done once for a task, by the prefix of its entry in the schedule."""
