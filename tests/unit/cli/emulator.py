"""A terminal of 80 columns in memory, for the output of `Screen`: text, line ends, and the codes of its status line."""

import io
import re

_PIECE = re.compile(r"\x1b\[(?P<number>[\d;]*)(?P<code>[A-Za-z])|(?P<character>.)", re.DOTALL)


class Emulator(io.StringIO):
    """A file that counts as a terminal; `screen` returns the visible lines."""

    def __init__(self, columns: int = 80) -> None:
        super().__init__()
        self.columns = columns

    def isatty(self) -> bool:
        return True

    def screen(self) -> list[str]:
        """Return the lines, without spaces at their ends."""
        cells = _Cells(self.columns)
        for piece in _PIECE.finditer(self.getvalue()):
            if piece["character"]:
                cells.write(piece["character"])
            else:
                cells.control(piece["code"], piece["number"])
        return ["".join(line).rstrip() for line in cells.lines]


class _Cells:
    def __init__(self, columns: int) -> None:
        self.lines: list[list[str]] = [[]]
        self._columns = columns
        self._row = self._column = 0

    def write(self, character: str) -> None:
        if character == "\r":
            self._column = 0
            return
        if character == "\n" or self._column == self._columns:
            self._row, self._column = self._row + 1, 0
            if self._row == len(self.lines):
                self.lines.append([])
        if character != "\n":
            line = self.lines[self._row]
            line += [" "] * (self._column + 1 - len(line))
            line[self._column] = character
            self._column += 1

    def control(self, code: str, number: str) -> None:
        if code == "A":
            self._row -= 1
        elif code == "G":
            self._column = int(number) - 1
        elif code == "K":
            del self.lines[self._row][self._column :]
        elif code != "m":
            raise AssertionError(f"unknown code {code!r}")
