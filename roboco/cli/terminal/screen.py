"""Screen: output to a terminal or a pipe; it removes control characters of models, tools and users."""

from typing import TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from roboco.cli.terminal.sanitize import escaped, printable

Span = str | tuple[str, str]
"""A piece of a line: a text, or a text with its rich style."""

WIDE = 200
"""Columns of a table, if the output is no terminal."""


class Screen:
    """Prints and flushes each text. If the output is no terminal, it prints no colours and no control codes."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        width = None if file.isatty() else WIDE
        self._console = Console(file=file, highlight=False, markup=False, emoji=False, soft_wrap=True, width=width)
        self._fresh = True

    @property
    def terminal(self) -> bool:
        """True if the output is a terminal."""
        return self._file.isatty()

    def say(self, text: str) -> None:
        """Print a piece of running text."""
        if shown := printable(text):
            self._file.write(shown)
            self._file.flush()
            self._fresh = shown.endswith("\n")

    def line(self, *spans: Span) -> None:
        """Print a line, after the end of the running text."""
        self._begin()
        self._console.print(Text.assemble(*map(_clean, spans)))

    def blank(self) -> None:
        """End the running text and print an empty line."""
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
    """Return the span with invisible characters escaped, as names, arguments and reasons need it."""
    return escaped(span) if isinstance(span, str) else (escaped(span[0]), span[1])
