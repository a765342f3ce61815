"""Screen: where text goes, whether a terminal or a pipe; no control character of others gets through."""

from typing import TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from roboco.cli.terminal.sanitize import escaped, printable

Span = str | tuple[str, str]
"""A piece of a line: text, or text and its rich style."""

WIDE = 200
"""Columns of a table that nobody sees on a terminal."""


class Screen:
    """Prints as it comes and at once; without a terminal there are no colours and no control codes."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        width = None if file.isatty() else WIDE
        self._console = Console(file=file, highlight=False, markup=False, emoji=False, soft_wrap=True, width=width)
        self._fresh = True

    @property
    def terminal(self) -> bool:
        """Whether somebody sees it as it comes."""
        return self._file.isatty()

    def say(self, text: str) -> None:
        """Print a piece of running text."""
        if shown := printable(text):
            self._file.write(shown)
            self._file.flush()
            self._fresh = shown.endswith("\n")

    def line(self, *spans: Span) -> None:
        """Print a line of its own, after the running text."""
        self._begin()
        self._console.print(Text.assemble(*map(_clean, spans)))

    def blank(self) -> None:
        """End the running text and leave a line free."""
        self._begin()
        self._console.print()

    def table(self, table: Table) -> None:
        """Print a table, whose cells are Text."""
        self._begin()
        self._console.print(table, soft_wrap=False)

    def _begin(self) -> None:
        if not self._fresh:
            self._file.write("\n")
            self._fresh = True


def _clean(span: Span) -> Span:
    """The span with names, arguments and reasons as they are: what does not show is escaped."""
    return escaped(span) if isinstance(span, str) else (escaped(span[0]), span[1])
