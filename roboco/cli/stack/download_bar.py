"""DownloadBar: the progress of a download, as one line of a terminal, or as a line now and then without one."""

import time
from collections.abc import Callable
from typing import Final, TextIO

BAR_COLUMNS: Final = 30
LINE_INTERVAL: Final = 10.0
"""Seconds between two lines without a terminal."""
_MEGABYTE: Final = 1_000_000
_CLEARED: Final = "\r\x1b[K"


class DownloadBar:
    """Shows how much of `total` bytes has arrived."""

    def __init__(self, title: str, total: int, file: TextIO, report: Callable[[str], None]) -> None:
        self._title = title
        self._total = total
        self._file = file
        self._report = report
        self._is_drawn = False
        self._due = time.monotonic() + LINE_INTERVAL

    def show(self, received: int) -> None:
        """Show this number of bytes as received."""
        part = min(1.0, received / self._total)
        amount = f"{received / _MEGABYTE:.0f} of {self._total / _MEGABYTE:.0f} MB"
        if self._file.isatty():
            done = round(part * BAR_COLUMNS)
            self._write(f"{_CLEARED}{self._title} {'━' * done}{'╌' * (BAR_COLUMNS - done)} {amount}")
            self._is_drawn = True
        elif time.monotonic() >= self._due:
            self._due = time.monotonic() + LINE_INTERVAL
            self._report(f"{self._title}: {amount}")

    def clear(self) -> None:
        """Remove the line from the terminal."""
        if self._is_drawn:
            self._write(_CLEARED)
            self._is_drawn = False

    def _write(self, text: str) -> None:
        self._file.write(text)
        self._file.flush()
