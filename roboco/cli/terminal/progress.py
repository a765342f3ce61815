"""Progress: a line on a terminal that says what is waited for, and is gone before anything else is printed."""

from collections.abc import Sequence
from typing import Final, TextIO

_CLEARED: Final = "\r\x1b[K"
_WIDTH: Final = 70
"""Characters of it at most: a line that the terminal wraps cannot be cleared."""


class Progress:
    """Writes nothing where nobody sees it as it comes."""

    def __init__(self, file: TextIO, shown: bool) -> None:
        self._file = file
        self._enabled = shown
        self._there = False

    def show(self, names: Sequence[str]) -> None:
        """Name what is waited for."""
        if self._enabled and names:
            self._write(f"{_CLEARED}waiting for {', '.join(names)}"[: _WIDTH + len(_CLEARED)])
            self._there = True

    def clear(self) -> None:
        """Remove the line."""
        if self._there:
            self._write(_CLEARED)
            self._there = False

    def _write(self, text: str) -> None:
        self._file.write(text)
        self._file.flush()
