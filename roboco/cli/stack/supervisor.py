"""Supervisor: keeps the parts of a stack running, and stops them in order."""

import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn

from roboco.cli.stack.celery_process import kill
from roboco.cli.stack.component import Kind, Part
from roboco.cli.terminal.signals import Interrupted, undisturbed
from roboco.errors import RobocoError

_LOOK = 0.2
"""Seconds between two checks of the parts."""
_WARM = 10.0
"""Seconds that all workers together have to finish their work."""


class Supervisor:
    """Starts parts, restarts those that die, and stops them: first those that use others, then the newest first.

    Use it in the main thread only, because the servers end with the thread that started them.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._parts: list[Part[Any]] = []

    def add(self, part: Part[Kind]) -> Kind:
        """Start the part, keep it running from now on, and return its server."""
        part.start()
        self._parts.append(part)
        return part.server

    def keep(self) -> NoReturn:
        """Restart dead parts until a signal raises Interrupted."""
        while True:
            for part in self._parts:
                self._see_to(part)
            time.sleep(_LOOK)

    def end(self) -> None:
        """Stop all parts within a bounded time. A second Ctrl-C kills the workers without more waiting."""
        workers = [part for part in self._parts if part.sign]
        for part in workers:
            part.server.process.terminate()
        with suppress(Interrupted):
            _wait(workers, _WARM)
        with undisturbed():
            for part in workers:
                kill(part.server)
            for part in reversed(self._parts):
                part.server.stop()
                kill(part.server)

    def _see_to(self, part: Part[Any]) -> None:
        if (pause := part.died()) is not None:
            code = part.server.process.returncode
            self._tell(f"{part.name} ended with code {code}, starts again in {pause:g} s; its log: {part.log}")
        elif part.is_due():
            self._start_again(part)
        elif part.became_ready():
            self._tell(f"{part.name} is ready")

    def _start_again(self, part: Part[Any]) -> None:
        try:
            part.start()
        except RobocoError as error:
            self._tell(f"{error}\n{part.name} is tried again in {part.postpone():g} s")
        else:
            if not part.sign:
                self._tell(f"{part.name} is back")


def _wait(parts: list[Part[Any]], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    for part in parts:
        with suppress(subprocess.TimeoutExpired):
            part.server.process.wait(max(0.0, deadline - time.monotonic()))
