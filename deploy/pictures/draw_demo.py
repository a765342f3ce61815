"""Draw a real run of `roboco demo` as SVG: draw_demo.py [COMMAND ...] > demo.svg

The command runs on a pseudo-terminal of 100 columns. Its output, with the cursor movements of status lines applied, is
printed on a recording console of rich.
"""

import os
import pty
import re
import struct
import sys
import termios
from collections.abc import Iterator
from fcntl import ioctl
from io import StringIO
from typing import Final

from rich.console import Console
from rich.text import Text

COLUMNS: Final = 100
ROWS: Final = 200
"""More than a demo prints: nothing scrolls."""
RESET: Final = "\x1b[0m"
_PIECE: Final = re.compile(r"\x1b\[(?P<values>[?\d;]*)(?P<code>[A-Za-z])|\x1b\][^\x07]*\x07|(?P<plain>.)", re.DOTALL)


class Terminal:
    """Lines of cells; a cell is a style and a character."""

    def __init__(self) -> None:
        self.lines: list[list[str]] = [[]]
        self.row = self.column = 0
        self.style = ""

    def feed(self, text: str) -> None:
        """Apply output to the lines."""
        for piece in _PIECE.finditer(text):
            if piece["plain"]:
                self._put(piece["plain"])
            elif piece["code"]:
                self._control(piece["code"], piece["values"])

    def _put(self, character: str) -> None:
        match character:
            case "\n":
                self._move(self.row + 1, self.column)
            case "\r":
                self.column = 0
            case _:
                line = self.lines[self.row]
                line += [" "] * (self.column + 1 - len(line))
                line[self.column] = f"{self.style}{character}{RESET}" if self.style else character
                self.column += 1

    def _control(self, code: str, values: str) -> None:
        count = int(values) if values.isdecimal() else 0
        match code:
            case "m":
                self.style = "" if count == 0 and values in ("", "0") else f"{self.style}\x1b[{values}m"
            case "A":
                self._move(self.row - (count or 1), self.column)
            case "B":
                self._move(self.row + (count or 1), self.column)
            case "G":
                self.column = max(0, count - 1)
            case "K":
                del self.lines[self.row][0 if count == 2 else self.column :]
            case "J":
                del self.lines[self.row][self.column :], self.lines[self.row + 1 :]

    def _move(self, row: int, column: int) -> None:
        self.row, self.column = max(0, row), column
        self.lines += [[] for _ in range(self.row + 1 - len(self.lines))]


def output(command: list[str]) -> Iterator[str]:
    """Yield the output of a command on a pseudo-terminal. Raise SystemExit if the command fails."""
    child, terminal = pty.fork()
    if child == 0:
        os.execvp(command[0], command)  # noqa: S606  # the command that the caller has typed
    ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    with os.fdopen(terminal, encoding="utf-8", errors="replace", newline="") as stream:
        try:
            while text := stream.read(1):
                yield text
        except OSError:
            pass  # Linux ends a pseudo-terminal so, once the child has closed it
    if code := os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
        raise SystemExit(f"{command[0]} ended with {code}")


def main() -> None:
    """Print the picture."""
    command = sys.argv[1:] or ["roboco", "demo"]
    terminal = Terminal()
    terminal.feed("".join(output(command)))
    console = Console(record=True, width=COLUMNS, file=StringIO(), force_terminal=True, color_system="truecolor")
    console.print(Text(f"$ {' '.join(command)}"))
    for line in terminal.lines:
        console.print(Text.from_ansi("".join(line)))
    sys.stdout.write(console.export_svg(title=" ".join(command), unique_id="demo"))


if __name__ == "__main__":
    main()
