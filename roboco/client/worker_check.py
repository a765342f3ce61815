"""Attendance: a client that follows a task, or waits for its end, logs a warning if no worker processes the task."""

import logging
import time
from collections.abc import Callable
from typing import Final

from roboco.errors import RobocoError
from roboco.ports.registry import LIVENESS_TIMEOUT

_log = logging.getLogger(__name__)

CHECK_INTERVAL: Final = 5.0
"""Seconds between two checks."""
LOG_INTERVAL: Final = 60.0
"""Seconds between two warnings."""


class WorkerCheck:
    """Checks regularly whether a worker processes a task. `current_cause` returns a kind and a text for people."""

    def __init__(self, task_id: str, current_cause: Callable[[], tuple[str, str] | None]) -> None:
        self._task_id = task_id
        self._current_cause = current_cause
        self.has_own_worker = False
        """True if this process watches the worker that it has started: that it is not registered yet is no cause."""
        self._due = time.monotonic() + LIVENESS_TIMEOUT
        self._logged = -LOG_INTERVAL
        self.missing_worker = ""
        """Why the task did not go on at the last check, or ""."""

    def is_due(self) -> bool:
        """Return True if a check is due."""
        return time.monotonic() >= self._due

    def check(self) -> None:
        """Check if it is due, and log a warning if no worker processes the task. It raises no RobocoError."""
        if not self.is_due():
            return
        now = time.monotonic()
        self._due = now + CHECK_INTERVAL
        try:
            cause = self._current_cause()
        except RobocoError as error:
            _log.debug("the workers of task %s are not known: %s", self._task_id, error)
            return
        kind, text = cause or ("", "")
        self.missing_worker = "" if self.has_own_worker and kind == "no_worker" else text
        if self.missing_worker and now - self._logged >= LOG_INTERVAL:
            self._logged = now
            _log.warning("task %s waits: %s", self._task_id, self.missing_worker)
