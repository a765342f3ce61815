"""Attendance: a client that follows a task, or waits for its end, logs a warning if no worker processes the task."""

import logging
import time
from typing import Final

from roboco.engine.engine import Engine
from roboco.engine.intake.unattended import why_unattended
from roboco.errors import RobocoError
from roboco.ports.registry import LIVENESS_TIMEOUT

_log = logging.getLogger(__name__)

CHECK_INTERVAL: Final = 5.0
"""Seconds between two checks."""
LOG_INTERVAL: Final = 60.0
"""Seconds between two warnings."""


class WorkerCheck:
    """Checks regularly whether a worker processes a task."""

    def __init__(self, engine: Engine, task_id: str, address: str) -> None:
        self._engine = engine
        self._task_id = task_id
        self._address = address
        self._due = time.monotonic() + LIVENESS_TIMEOUT
        self._logged = -LOG_INTERVAL
        self.missing_worker = ""
        """Why no worker processed the task at the last check, or "" if one did."""

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
            self.missing_worker = why_unattended(self._engine, self._address, self._task_id)
        except RobocoError as error:
            _log.debug("the workers of task %s are not known: %s", self._task_id, error)
            return
        if self.missing_worker and now - self._logged >= LOG_INTERVAL:
            self._logged = now
            _log.warning("task %s waits: %s", self._task_id, self.missing_worker)
