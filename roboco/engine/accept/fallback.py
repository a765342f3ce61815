"""fallback: leave the start of an accepted task to the sweeper if Redis or the broker fails."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from roboco.errors import TransientError

_log = logging.getLogger(__name__)


@contextmanager
def falling_back_to_sweeper(task_id: str) -> Iterator[None]:
    """Log a failure of Redis or the broker instead of raising it: the sweeper finds the marker and starts the task."""
    try:
        yield
    except TransientError as error:
        _log.warning("task %s is accepted, and the sweeper will start it: %s", task_id, error)
