"""retry: what must be stored is tried again while its server is away: done work is not thrown away."""

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
    """What `store` returns, once its server answers.

    TransientError if it has not for `patience` seconds (`policy.patience`, unless given), or as soon as the work is
    not ours any more.
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
    """Whether it is ours, as far as one can know: what is stored late is stored once all the same."""
    try:
        return ours()
    except TransientError:
        return True
