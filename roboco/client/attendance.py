"""Attendance: a process that follows a task, or waits for its end, logs that no worker attends to the task."""

import logging
import time

from roboco.engine.engine import Engine
from roboco.engine.intake.unattended import unattended
from roboco.errors import RobocoError
from roboco.ports.registry import LIVE

_log = logging.getLogger(__name__)

EVERY = 5.0
"""Seconds between two looks."""
REPEAT = 60.0
"""Seconds after which the same finding is logged again."""


class Attendance:
    """Looks now and then whether a worker attends to a task. `missing` is the last finding, "" if one does."""

    def __init__(self, engine: Engine, task_id: str, address: str) -> None:
        self._engine = engine
        self._task_id = task_id
        self._address = address
        self._due = time.monotonic() + LIVE
        self._logged = -REPEAT
        self.missing = ""

    def is_due(self) -> bool:
        """Return True if it is time for a look."""
        return time.monotonic() >= self._due

    def check(self) -> None:
        """Look if it is time for it, and log a warning if no worker attends. It raises no RobocoError."""
        if not self.is_due():
            return
        now = time.monotonic()
        self._due = now + EVERY
        try:
            self.missing = unattended(self._engine, self._address, self._task_id)
        except RobocoError as error:
            _log.debug("whether a worker attends to task %s is not known: %s", self._task_id, error)
            return
        if self.missing and now - self._logged >= REPEAT:
            self._logged = now
            _log.warning("task %s waits: %s", self._task_id, self.missing)
