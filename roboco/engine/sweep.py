"""sweep: look at the tasks whose time has come. It runs in every coordinator worker, one at a time.

Redis may lose its last second or everything, and a task may be accepted while it does not answer: so from time to
time, and whenever Redis was emptied or started again, the agenda is filled from the markers in the workspace.
"""

import logging
from collections.abc import Callable

from roboco.domain.event import StreamReset
from roboco.domain.paths import OPEN
from roboco.engine.advance import advance
from roboco.engine.engine import Engine
from roboco.engine.items import knock_again
from roboco.errors import RobocoError

_log = logging.getLogger(__name__)

BATCH = 200
"""How many tasks one sweep looks at."""
REFILL = 1800.0
"""Seconds after which the agenda is filled from the workspace again."""
RETRY = 5.0
"""Seconds after which a task is looked at again whose look failed."""


def sweep(engine: Engine, seconds: float, look: Callable[[Engine, str, bool], None] = advance) -> int:
    """Look at the tasks that are due: how many there were. Nothing happens if another sweeper has the lock.

    The lock lasts `seconds`: a sweeper that dies delays the next one by no more.
    """
    if not engine.agenda.lock(engine.token(), seconds):
        return 0
    if not engine.agenda.intact():
        _recover(engine)
    elif not engine.agenda.fresh():
        fill_agenda(engine)
    due = engine.agenda.due(engine.clock.now(), BATCH)
    for task_id in due:
        engine.agenda.put(task_id, engine.clock.now() + RETRY)
        try:
            look(engine, task_id, True)
        except RobocoError as error:
            _log.error("task %s could not be looked at and is tried again in %g s: %s", task_id, RETRY, error)
        except Exception:  # one task that cannot be looked at must not keep the others from it
            _log.exception("task %s could not be looked at and is tried again in %g s", task_id, RETRY)
    return len(due)


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
    engine.agenda.begin(REFILL)
