"""sweep: look at the tasks whose time has come. It runs in every coordinator worker, as a rule in one at a time.

Redis may lose its last second or everything, and a task may be accepted while it does not answer: so from time to
time, and whenever Redis was emptied or started again, the agenda is filled from the markers in the workspace.
"""

import logging
from collections.abc import Callable

from roboco.domain.event import StreamReset
from roboco.domain.letter import lost_work
from roboco.domain.paths import NOTIFY, OPEN, open_path
from roboco.engine import notify
from roboco.engine.advance import QUIET, advance
from roboco.engine.engine import Engine
from roboco.engine.items import knock_again
from roboco.errors import CorruptHistory, TransientError

_log = logging.getLogger(__name__)

Look = Callable[[Engine, str, bool], None]
BATCH = 200
"""How many tasks one sweep looks at."""
REFILL = 1800.0
"""Seconds after which the agenda is filled from the workspace again."""
RETRY = 5.0
"""Seconds after which a task is looked at again whose look failed."""


def sweep(engine: Engine, seconds: float, look: Look = advance) -> int:
    """Look at the tasks that are due: how many there were. Nothing happens if another sweeper has the lock.

    The lock lasts `seconds`: a sweeper that dies delays the next one by no more. TransientError if Redis does not
    answer, which concerns all tasks alike.
    """
    if not engine.agenda.lock(engine.token(), seconds):
        return 0
    if not engine.agenda.intact():
        _recover(engine)
    elif not engine.agenda.fresh():
        fill_agenda(engine)
    due = engine.agenda.due(BATCH)
    for task_id in due:
        try:
            if not notify.ring(engine, task_id):
                _look_at(engine, task_id, look)
        except TransientError:
            raise
        except Exception:
            _log.exception("task %s could not be seen to and is tried again", task_id)
    return len(due)


def _look_at(engine: Engine, task_id: str, look: Look) -> None:
    """Look at the task; give it up if too many sweepers were lost while they did."""
    key = f"look:{task_id}"
    lost = engine.attempts.begin(key)
    if lost is None:
        return
    pause = min(RETRY * 2.0**lost, QUIET)
    engine.agenda.put(task_id, pause)
    with engine.keeper.hold(lambda: engine.attempts.renew(key), lambda: None):
        if lost < engine.policy.attempts:
            _try(engine, task_id, look, pause)
            engine.attempts.end(key)
        else:
            _give_up(engine, task_id, lost)
            engine.attempts.end(key)  # not if that raised: then the next look is no different from this one


def _try(engine: Engine, task_id: str, look: Look, pause: float) -> None:
    failures = f"failed-look:{task_id}"
    try:
        look(engine, task_id, True)
        engine.attempts.end(failures)
    except TransientError as error:
        _log.error("task %s could not be looked at and is tried again in %g s: %s", task_id, pause, error)
    except CorruptHistory as error:
        _put_aside(engine, task_id, error)
    except Exception as error:  # one task that cannot be looked at must not keep the others from it
        failed = engine.attempts.count(failures) + 1
        if failed < engine.policy.attempts:
            _log.exception("task %s could not be looked at and is tried again in %g s", task_id, pause)
            return
        _log.exception("task %s could not be looked at for the %d. time and is put aside", task_id, failed)
        engine.dead.bury(
            lost_work("advance", task_id, "look", f"{type(error).__name__}: {error}", failed, engine.now())
        )
        engine.agenda.put(task_id, QUIET)


def _put_aside(engine: Engine, task_id: str, error: CorruptHistory) -> None:
    """Only a person can restore what the workspace has lost: nothing goes on on a broken base."""
    letter = lost_work("advance", task_id, "history", str(error), 1, engine.now())
    engine.dead.bury(letter)
    engine.agenda.put(task_id, QUIET)
    _log.error(
        "task %s stands still, because its history is broken: %s. Restore history.jsonl (or what lies below history/) "
        "from a backup and run: roboco requeue %s. Or delete %s to give the task up",
        task_id,
        error,
        letter.letter_id,
        open_path(task_id),
    )


def _give_up(engine: Engine, task_id: str, lost: int) -> None:
    reason = f"{lost} sweepers were lost while they looked at the task"
    _log.error("task %s is given up: %s", task_id, reason)
    engine.dead.bury(lost_work("advance", task_id, "", reason, lost, engine.now()))
    advance(engine, task_id, True, reason)


def _recover(engine: Engine) -> None:
    """Look at every open task now. A Redis that was started again may have lost the end of their logs.

    Numbers of what was lost must not come twice: so each task's logs begin anew.
    """
    if engine.agenda.restarted():
        for task_id in engine.files.names(OPEN):
            task = engine.board.load(task_id, 1)
            if task is not None:
                reset = StreamReset(task_id=task_id, timestamp=engine.now(), steps=task.seq)
                engine.board.begin_again(task_id, reset)
    fill_agenda(engine, all_now=True)


def fill_agenda(engine: Engine, all_now: bool = False) -> None:
    """Enter every open task that the agenda lacks, or for which something waits, to be looked at now; or all."""
    open_tasks = engine.files.names(OPEN)
    _log.info("the agenda is filled from the workspace: %d open tasks", len(open_tasks))
    for task_id in open_tasks:
        if knock_again(engine, task_id) or all_now:
            engine.agenda.put(task_id, 0)
        else:
            engine.agenda.add(task_id, 0)
    for task_id in engine.files.names(NOTIFY):
        engine.agenda.add(notify.entry(task_id), 0)
    engine.agenda.begin(REFILL)
