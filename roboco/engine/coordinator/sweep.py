"""sweep: look at the tasks whose time has come. It runs in every coordinator worker, as a rule in one at a time.

Redis may lose its last second or everything, and a task may be accepted while it does not answer: so from time to
time, and whenever Redis was emptied or started again, the schedule is filled from the markers in the workspace.
"""

import logging
from collections.abc import Callable
from functools import partial

from roboco.domain.dead_letter import lost_work
from roboco.domain.ids import is_task_id
from roboco.domain.paths import ENTER, NOTIFY, OPEN, RESTART, RESUME, open_path, team_path
from roboco.engine import notifications as notify
from roboco.engine.coordinator import outage
from roboco.engine.coordinator.advance import QUIET, advance
from roboco.engine.coordinator.archive import close_again
from roboco.engine.engine import Engine
from roboco.engine.record import recover
from roboco.engine.record.inbox_items import readd_from_workspace
from roboco.errors import CorruptHistory, TransientError
from roboco.ports import Phase

_log = logging.getLogger(__name__)

Look = Callable[[Engine, str, bool], None]
BATCH = 200
"""How many tasks one sweep looks at."""
ELSEWHERE = 60.0
"""Seconds after which a task is tried again that is not in this workspace."""
REFILL = 1800.0
"""Seconds after which the schedule is filled from the workspace again."""
RETRY = 5.0
"""Seconds after which a task is looked at again whose look ended its worker, or failed."""
MOST_FAILURES = 10
"""Failures after which one sweep leaves the rest to the next one."""
LOOKS = ("look", "failed-look", "router")
"""The kinds of attempts that are counted for a task."""


def sweep(engine: Engine, seconds: float, look: Look = advance) -> int:
    """Look at the tasks that are due: how many there were. Nothing happens if another sweeper has the lock.

    The lock lasts `seconds`: a sweeper that dies delays the next one by no more. TransientError if the schedule or the
    workspace does not answer, which concerns all tasks alike. A task that fails delays no other.
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
            break  # each may have taken a time-out; they are tried again later, and the others come first
    return len(due)


def _attend(engine: Engine, entry: str, look: Look) -> None:
    kind, slash, task_id = entry.partition("/")
    if (work := ONCE.get(kind + slash)) is not None:
        at = engine.schedule.at(entry)
        work(engine, task_id)
        engine.schedule.drop(entry, at)  # not one that another sweeper has put since
    elif not notify.ring(engine, entry):
        _look_at(engine, entry, look)


def _isolated(engine: Engine, entry: str, work: Callable[[], None]) -> bool:
    """Do the work. If it fails, log the error, schedule the entry for a retry, and return False.

    TransientError if the schedule does not answer either.
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
    """Look at the task; give it up if too many sweepers were lost while they did."""
    key = f"look:{task_id}"
    lost = engine.attempts.begin(key)
    if lost is None:
        return
    pause = min(RETRY * 2.0**lost, QUIET)
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
            engine.attempts.end(key)  # not if that raised: then the next look is no different from this one


def _try(engine: Engine, task_id: str, look: Look, pause: float) -> None:
    failures = f"failed-look:{task_id}"
    try:
        look(engine, task_id, True)
        engine.attempts.end(failures)
    except TransientError:
        raise
    except CorruptHistory as error:
        _put_aside(engine, task_id, error)
    except Exception as error:  # one task that cannot be looked at must not keep the others from it
        failed = engine.attempts.count(failures) + 1
        if failed < engine.policy.attempts:
            _log.exception("the sweep of task %s failed; the sweeper retries it in %g s", task_id, pause)
            return
        _log.exception("the sweep of task %s failed %d times; a dead letter is stored", task_id, failed)
        engine.dead.add(lost_work("advance", task_id, "look", f"{type(error).__name__}: {error}", failed, engine.now()))
        engine.schedule.put(task_id, QUIET)


def _put_aside(engine: Engine, task_id: str, error: CorruptHistory) -> None:
    """Store a dead letter: only a person can restore what the workspace has lost, and nothing continues without it.

    A task that is not in this workspace at all is another workspace's: it continues soon after its coordinator starts.
    """
    letter = lost_work("advance", task_id, "history", str(error), 1, engine.now())
    engine.dead.add(letter)
    if engine.files.size(team_path(task_id)) is None:
        engine.schedule.put(task_id, ELSEWHERE)
        _log.error("task %s cannot continue here: %s. It is tried again in %g s", task_id, error, ELSEWHERE)
        return
    engine.schedule.put(task_id, QUIET)
    _log.error(
        "task %s cannot continue, because its history is broken: %s. Restore history.jsonl (or the objects below "
        "history/) from a backup and run: roboco dead-letters requeue %s. Or delete %s to abandon the task",
        task_id,
        error,
        letter.letter_id,
        open_path(task_id),
    )


def _give_up(engine: Engine, task_id: str, lost: int) -> bool:
    """End the task, and return True; not while Redis waits to be recovered, since no task can end then."""
    if engine.schedule.recovered(task_id) is None:
        return False
    reason = f"{lost} sweepers were lost while they looked at the task"
    _log.error("task %s is given up: %s", task_id, reason)
    engine.dead.add(lost_work("advance", task_id, "", reason, lost, engine.now()))
    advance(engine, task_id, True, reason)
    return True


def _recover(engine: Engine) -> None:
    """Look at every open task now. A Redis that was started again may have lost the end of their logs.

    Numbers of what was lost must not come twice: so each task's logs begin anew, before the task is looked at. A task
    that was closed in the moment that Redis has lost is in the schedule again, without a marker.
    """
    mark = engine.schedule.prepare()
    if engine.schedule.restarted():
        for task_id in sorted({*engine.schedule.known(), *_task_ids(engine, OPEN)}):
            engine.schedule.put(f"{RESTART}{task_id}", -QUIET)
    fill_schedule(engine, mark, all_now=True)


def _refill(engine: Engine) -> None:
    """Fill the schedule again, unless Redis was restarted a moment ago: then the next sweep recovers it."""
    mark = engine.schedule.prepare()
    if engine.schedule.intact():
        fill_schedule(engine, mark)


def _begin_again(engine: Engine, task_id: str) -> None:
    """Begin a new generation of the task's logs, and note its items, of which Redis may have lost some.

    Sweepers that were lost are forgotten: Redis may have restored them.
    """
    for kind in LOOKS:
        engine.attempts.end(f"{kind}:{task_id}")
    readd_from_workspace(engine, task_id)
    recover.begin_again(engine, task_id)
    task = engine.board.load(task_id, 1)
    if task is not None and task.phase is Phase.END and engine.files.get(open_path(task_id)) is None:
        close_again(engine, task_id, task)


def fill_schedule(engine: Engine, mark: str, all_now: bool = False) -> None:
    """Enter every open task that the schedule lacks, or for which something waits, to be looked at now; or all.

    The `mark` was made before: if Redis was emptied or restarted meanwhile, the next sweep fills it again. A
    task that fails is tried again alone. After MOST_FAILURES, which may each have taken a time-out, all others are.
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
    """Enter the task in the schedule, to be looked at at once if an item waits for it, or with `now`."""
    if readd_from_workspace(engine, task_id) or now:
        engine.schedule.put(task_id)
    else:
        engine.schedule.add(task_id)


def _task_ids(engine: Engine, folder: str) -> list[str]:
    """Return the tasks that have a marker in the folder, without names that are no task ids."""
    names = engine.files.names(folder)
    if strays := [name for name in names if not is_task_id(name)]:
        _log.warning("skipped %d names below %s that are not task ids: %r", len(strays), folder, strays[:5])
    return [name for name in names if is_task_id(name)]


ONCE: dict[str, Callable[[Engine, str], None]] = {
    RESTART: _begin_again,
    ENTER: partial(_enter, now=True),
    RESUME: outage.resume,
}
"""What is done once for a task, by the prefix of its entry in the schedule."""
