"""LogNotes: what libraries log, kept until the thread that prints on the screen has room for it between two texts."""

import logging
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from roboco.cli.terminal.screen import Screen

MAX_NOTES: Final = 100
"""Notes that are kept. The oldest ones give way."""


class LogNotes(logging.Handler):
    """Keeps warnings and errors. Without it they would be printed into a status line or a prompt."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._kept: deque[str] = deque(maxlen=MAX_NOTES)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the message. Any thread calls this."""
        self._kept.append(record.getMessage())

    def print(self, screen: Screen) -> None:
        """Print each kept message once."""
        while self._kept:
            screen.paragraph((self._kept.popleft(), "dim"))

    @contextmanager
    def installed(self) -> Iterator["LogNotes"]:
        """Keep the messages of the block."""
        root = logging.getLogger()
        root.addHandler(self)
        try:
            yield self
        finally:
            root.removeHandler(self)
