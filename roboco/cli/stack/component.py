"""Part: one server of a stack that stays, restarted when it dies."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from roboco.adapters.local.process import Server
from roboco.cli.stack.celery_process import kill

_FIRST, _LONGEST = 0.5, 30.0
"""Seconds before a restart: the first delay, which doubles with each death, and the greatest."""
_STEADY = 60.0
"""Seconds of uptime after which a death counts as the first one again."""


Kind = TypeVar("Kind", bound=Server)


class Part(Generic[Kind]):
    """A server that `begin` starts, with its output in `log`.

    A part with a `sign` uses the others. It is ready once its log contains the sign, and is stopped before them.
    """

    server: Kind

    def __init__(self, name: str, log: Path, begin: Callable[[], Kind], sign: bytes = b"") -> None:
        self.name = name
        self.log = log
        self.sign = sign
        self._begin = begin
        self._awaited_from: int | None = None
        self._since = 0.0
        self._deaths = 0
        self._due: float | None = None

    def start(self) -> None:
        """Start the server. The processes that a dead one has left are killed first."""
        if self._since:
            kill(self.server)
        size = self.log.stat().st_size if self.log.exists() else 0
        self.server = self._begin()
        self._awaited_from = size if self.sign else None
        self._since, self._due = time.monotonic(), None

    def died(self) -> float | None:
        """Return the seconds until the restart if this call is the first to find the server dead, else None."""
        if self._due is not None or self.server.alive():
            return None
        if time.monotonic() - self._since > _STEADY:
            self._deaths = 0
        return self.postpone()

    def postpone(self) -> float:
        """Note a death or a failed start, and return the seconds until the next start."""
        pause = min(_LONGEST, _FIRST * 2.0 ** min(self._deaths, 10))
        self._deaths += 1
        self._due = time.monotonic() + pause
        return pause

    def is_due(self) -> bool:
        """Return True if it is time for the restart."""
        return self._due is not None and time.monotonic() >= self._due

    def became_ready(self) -> bool:
        """Return True if its sign is found for the first time since its start."""
        if self._awaited_from is None:
            return False
        with self.log.open("rb") as log:
            log.seek(self._awaited_from)
            found = self.sign in log.read()
        if found:
            self._awaited_from = None
        return found
