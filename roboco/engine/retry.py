"""retry: store the result of finished work with retries while its server does not answer, so that no work is lost."""

import logging
from collections.abc import Callable
from typing import TypeVar

from roboco.errors import TransientError
from roboco.ports.clock import Clock

T = TypeVar("T")
_log = logging.getLogger(__name__)

FIRST_RETRY_DELAY = 0.5
MAX_RETRY_DELAY = 10.0


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


def _may_retry(still_ours: Callable[[], bool]) -> bool:
    """Return False only if the lease is known to be lost. A late store is harmless: it is conditional."""
    try:
        return still_ours()
    except TransientError:
        return True
