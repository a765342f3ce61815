"""retry: store the result of finished work with retries while its server does not answer, so that no work is lost."""

import logging
from collections.abc import Callable
from typing import TypeVar

from roboco.engine.engine import Engine
from roboco.errors import TransientError

T = TypeVar("T")
_log = logging.getLogger(__name__)

FIRST_PAUSE = 0.5
LONGEST_PAUSE = 10.0


def retry(
    engine: Engine, store: Callable[[], T], ours: Callable[[], bool], what: str, patience: float | None = None
) -> T:
    """Return the result of `store`, which is called again, with backoff, while it raises TransientError.

    TransientError is raised after `patience` seconds (`policy.patience`, unless given), or as soon as `ours` returns
    False: another attempt has the work. `what` names the stored thing in the log.
    """
    until = engine.clock.now() + (engine.policy.patience if patience is None else patience)
    pause = FIRST_PAUSE
    while True:
        try:
            return store()
        except TransientError as error:
            if engine.clock.now() + pause > until or not _still(ours):
                raise
            _log.warning("%s waits until its server answers, and is tried again in %g s: %s", what, pause, error)
        engine.clock.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)


def _still(ours: Callable[[], bool]) -> bool:
    """Return False only if the lease is known to be lost. A late store is harmless: it is conditional."""
    try:
        return ours()
    except TransientError:
        return True
