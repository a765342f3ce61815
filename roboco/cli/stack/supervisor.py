"""Supervisor: keeps the parts of a stack running, and stops them in order."""

import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn

from roboco.cli.stack.celery_process import kill
from roboco.cli.stack.component import Component, ServerType
from roboco.cli.terminal.signals import Interrupted, ignore_signals
from roboco.errors import RobocoError

_POLL_INTERVAL = 0.2
"""Seconds between two checks of the parts."""
_WARM_SHUTDOWN_TIMEOUT = 10.0
"""Seconds that all workers together have to finish their work."""


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
            self._report(f"{part.name} is ready")

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
