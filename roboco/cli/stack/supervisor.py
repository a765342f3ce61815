"""Supervisor: keeps the parts of a stack running, restarts those that die, and stops them in order."""

import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Generic, NoReturn, TypeVar

from roboco.cli.stack.celery_process import kill
from roboco.cli.terminal.signals import Interrupted, ignore_signals
from roboco.errors import RobocoError
from roboco.local.process import Server

_POLL_INTERVAL = 0.2
"""Seconds between two checks of the parts."""
_WARM_SHUTDOWN_TIMEOUT = 10.0
"""Seconds that all workers together have to finish their work."""
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


class Supervisor:
    """Starts parts, restarts those that die, and stops them: first those that use others, then the newest first.

    Use it in the main thread only, because the servers end with the thread that started them.
    """

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self._components: list[Component[Any]] = []

    def add(self, part: Component[ServerType]) -> ServerType:
        """Start the part, keep it running from now on, and return its server."""
        self._report(f"starting {part.name}")
        part.start()
        self._components.append(part)
        return part.server

    def supervise(self) -> NoReturn:
        """Restart dead parts until a signal raises Interrupted."""
        while True:
            for part in self._components:
                self._check(part)
            time.sleep(_POLL_INTERVAL)

    def stop(self) -> None:
        """Stop all parts within a bounded time. A second Ctrl-C kills the workers without more waiting."""
        workers = [part for part in self._components if part.ready_text]
        for part in workers:
            part.server.process.terminate()
        with suppress(Interrupted):
            _wait(workers, _WARM_SHUTDOWN_TIMEOUT)
        with ignore_signals():
            for part in workers:
                kill(part.server)
            for part in reversed(self._components):
                part.server.stop()
                kill(part.server)

    def _check(self, part: Component[Any]) -> None:
        if (pause := part.detect_death()) is not None:
            code = part.server.process.returncode
            self._report(f"{part.name} ended with code {code}, starts again in {pause:g} s; its log: {part.log}")
        elif part.is_restart_due():
            self._restart(part)
        elif part.became_ready():
            self._report(f"{part.name} is ready, process {part.server.pid}")

    def _restart(self, part: Component[Any]) -> None:
        try:
            part.start()
        except RobocoError as error:
            self._report(f"{error}\n{part.name} is tried again in {part.schedule_restart():g} s")
        else:
            if not part.ready_text:
                self._report(f"{part.name} is back")


def _wait(parts: list[Component[Any]], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    for part in parts:
        with suppress(subprocess.TimeoutExpired):
            part.server.process.wait(max(0.0, deadline - time.monotonic()))
