"""Progress: a line on a terminal that names pending work, and is removed before other output."""

from collections.abc import Sequence
from typing import Final, TextIO

CLEAR_LINE: Final = "\r\x1b[K"
MAX_WIDTH: Final = 70
"""Characters of the line at most: a line that the terminal wraps cannot be cleared."""


class Progress:
    """Writes the line; nothing if `enabled` is False, since the output is no terminal."""

    def __init__(self, file: TextIO, enabled: bool) -> None:
        self._file = file
        self._enabled = enabled
        self._visible = False

    def show(self, names: Sequence[str]) -> None:
        """Name the pending work."""
        if self._enabled and names:
            self._write(f"{CLEAR_LINE}waiting for {', '.join(names)}"[: MAX_WIDTH + len(CLEAR_LINE)])
            self._visible = True

    def clear(self) -> None:
        """Remove the line."""
        if self._visible:
            self._write(CLEAR_LINE)
            self._visible = False

    def _write(self, text: str) -> None:
        self._file.write(text)
        self._file.flush()
