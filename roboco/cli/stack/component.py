"""Part: one server of a stack that stays, restarted when it dies."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from roboco.cli.stack.celery_process import kill
from roboco.local.process import Server

_MIN_BACKOFF, _MAX_BACKOFF = 0.5, 30.0
"""Seconds before a restart: the first delay, which doubles with each death, and the greatest."""
_STABLE_UPTIME = 60.0
"""Seconds of uptime after which a death counts as the first one again."""


ServerType = TypeVar("ServerType", bound=Server)


class Component(Generic[ServerType]):
    """A server that `begin` starts, with its output in `log`.

    A part with a `sign` uses the others. It is ready once its log contains the sign, and is stopped before them.
    """

    server: ServerType

    def __init__(self, name: str, log: Path, begin: Callable[[], ServerType], sign: bytes = b"") -> None:
        self.name = name
        self.log = log
        self.ready_text = sign
        self._begin = begin
        self._sign_offset: int | None = None
        self._started_at = 0.0
        self._deaths = 0
        self._restart_at: float | None = None

    def start(self) -> None:
        """Start the server. The processes that a dead one has left are killed first."""
        if self._started_at:
            kill(self.server)
        size = self.log.stat().st_size if self.log.exists() else 0
        self.server = self._begin()
        self._sign_offset = size if self.ready_text else None
        self._started_at, self._restart_at = time.monotonic(), None

    def detect_death(self) -> float | None:
        """Return the seconds until the restart if this call is the first to find the server dead, else None."""
        if self._restart_at is not None or self.server.alive():
            return None
        if time.monotonic() - self._started_at > _STABLE_UPTIME:
            self._deaths = 0
        return self.schedule_restart()

    def schedule_restart(self) -> float:
        """Note a death or a failed start, and return the seconds until the next start."""
        pause = min(_MAX_BACKOFF, _MIN_BACKOFF * 2.0 ** min(self._deaths, 10))
        self._deaths += 1
        self._restart_at = time.monotonic() + pause
        return pause

    def is_restart_due(self) -> bool:
        """Return True if it is time for the restart."""
        return self._restart_at is not None and time.monotonic() >= self._restart_at

    def became_ready(self) -> bool:
        """Return True if its sign is found for the first time since its start."""
        if self._sign_offset is None:
            return False
        with self.log.open("rb") as log:
            log.seek(self._sign_offset)
            found = self.ready_text in log.read()
        if found:
            self._sign_offset = None
        return found
