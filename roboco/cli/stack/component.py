"""Part: one server of a stack that stays, started again when it dies."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from roboco.adapters.local.process import Server
from roboco.cli.stack.celery_process import kill

_FIRST, _LONGEST = 0.5, 30.0
"""Seconds before a part that died is started again; they double each time."""
_STEADY = 60.0
"""Seconds after which a part that dies counts as one that has worked."""


Kind = TypeVar("Kind", bound=Server)


class Part(Generic[Kind]):
    """A server that `begin` starts, with its output in `log`.

    With a `sign` it works on the others: it is ready once the sign stands in its log, and is ended before them.
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
        """Start the server; what is left of one that died is ended before."""
        if self._since:
            kill(self.server)
        size = self.log.stat().st_size if self.log.exists() else 0
        self.server = self._begin()
        self._awaited_from = size if self.sign else None
        self._since, self._due = time.monotonic(), None

    def died(self) -> float | None:
        """Seconds until it is started again, if it is found dead now, and for the first time."""
        if self._due is not None or self.server.alive():
            return None
        if time.monotonic() - self._since > _STEADY:
            self._deaths = 0
        return self.postpone()

    def postpone(self) -> float:
        """Note a death or a start that failed: seconds until the next start."""
        pause = min(_LONGEST, _FIRST * 2.0 ** min(self._deaths, 10))
        self._deaths += 1
        self._due = time.monotonic() + pause
        return pause

    def is_due(self) -> bool:
        """Whether it is time to start it again."""
        return self._due is not None and time.monotonic() >= self._due

    def became_ready(self) -> bool:
        """Whether its sign is found, for the first time since it was started."""
        if self._awaited_from is None:
            return False
        with self.log.open("rb") as log:
            log.seek(self._awaited_from)
            found = self.sign in log.read()
        if found:
            self._awaited_from = None
        return found
