"""retry: repeat an operation while a server does not answer, or while a task is being closed.

The result of finished work is stored in this way, so that no work is lost.
"""

import logging
from collections.abc import Callable
from typing import TypeVar

from roboco.errors import TransientError
from roboco.ports.clock import Clock

T = TypeVar("T")
_log = logging.getLogger(__name__)

FIRST_RETRY_DELAY = 0.5
MAX_RETRY_DELAY = 10.0
CLOSE_TIMEOUT = 5.0
"""Seconds to wait for the close of a task, at most: seven checks, the last one after 3.2 s."""
FIRST_CLOSE_DELAY = 0.05
"""Seconds between the first two checks. Each delay is twice the one before."""


class TaskClosing(TransientError):
    """The task has ended, and a coordinator has not closed it yet (`record/closed.py`)."""


def retry(
    operation: Callable[[], T],
    still_ours: Callable[[], bool],
    description: str,
    clock: Clock,
    timeout: float,
) -> T:
    """Return the result of `operation`, which is called again, with backoff, while it raises TransientError.

    Raise TransientError after `timeout` seconds, or as soon as `still_ours` returns False: another attempt has the
    work. `description` names the work in the log.
    """
    until = clock.now() + timeout
    delay = FIRST_RETRY_DELAY
    while True:
        try:
            return operation()
        except TransientError as error:
            if clock.now() + delay > until or not _may_retry(still_ours):
                raise
            _log.warning("%s waits until its server answers, and is tried again in %g s: %s", description, delay, error)
        clock.sleep(delay)
        delay = min(2 * delay, MAX_RETRY_DELAY)


def after_close(clock: Clock, check: Callable[[], T], timeout: float = CLOSE_TIMEOUT) -> T:
    """Return the result of the check, which is repeated while it raises TaskClosing, at most for this time."""
    until, delay = clock.now() + timeout, FIRST_CLOSE_DELAY
    while True:
        try:
            return check()
        except TaskClosing:
            if clock.now() + delay > until:
                raise
        clock.sleep(delay)
        delay *= 2


def _may_retry(still_ours: Callable[[], bool]) -> bool:
    """Return False only if the lease is known to be lost. A late store is harmless: it is conditional."""
    try:
        return still_ours()
    except TransientError:
        return True


RETRY_DELAYS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Seconds after each attempt to replace a file that another worker has written meanwhile."""


def contention_error(path: str) -> TransientError:
    """Return the error of a file that other workers have changed at each attempt to replace it."""
    return TransientError(f"other workers keep changing {path!r}; the write is retried")
