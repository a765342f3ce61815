"""Screen: output to a terminal or a pipe; it removes control characters of models, tools and users."""

from typing import TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from roboco.cli.terminal.sanitize import escaped, printable
from roboco.cli.terminal.word_wrap import WordWrap, break_lines

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
        self._wrap = WordWrap()
        self._fresh = True
        self._has_status = False

    @property
    def terminal(self) -> bool:
        """True if the output is a terminal."""
        return self._file.isatty()

    def say(self, text: str) -> None:
        """Print a piece of running text. A terminal gets it with line ends between words."""
        if not (shown := printable(text)):
            return
        if self.terminal:
            self._clear_status()
            shown = self._wrap.feed(shown, self._console.width)
        else:
            self._fresh = shown.endswith("\n")
        self._write(shown)

    def line(self, *spans: Span) -> None:
        """Print a line of its own, after the running text. The terminal breaks it, so that it can be copied."""
        self._begin()
        self._console.print(Text.assemble(*map(_clean, spans)))

    def paragraph(self, *spans: Span, indent: int = 0) -> None:
        """Print a line of its own; a terminal gets it broken between words, with further lines indented."""
        self._begin()
        text = Text.assemble(*map(_clean, spans))
        for line in break_lines(text, self._console.width, indent) if self.terminal else [text]:
            self._console.print(line)

    def status(self, text: str) -> None:
        """Show a line below the running text of a terminal until anything else is printed; "" removes it."""
        if not self.terminal:
            return
        self._write(self._wrap.flush(self._console.width))
        self._clear_status()
        if text:
            below = "\n" if self._wrap.column else ""
            self._write(f"{below}\x1b[2m{escaped(text)[: self._console.width - 1]}\x1b[0m")
            self._has_status = True

    def blank(self) -> None:
        """End the running text and print an empty line."""
        self._begin()
        self._console.print()

    def table(self, table: Table) -> None:
        """Print a table, whose cells are Text."""
        self._begin()
        self._console.print(table, soft_wrap=False)

    def _begin(self) -> None:
        """End the running text, whose last word was held back, so that a line of its own can follow."""
        if self.terminal:
            self._clear_status()
            self._write(self._wrap.flush(self._console.width))
            self._fresh = self._wrap.column == 0
            self._wrap = WordWrap()
        if not self._fresh:
            self._write("\n")
            self._fresh = True

    def _clear_status(self) -> None:
        """Remove the status line, and return to the column where the running text continues."""
        if self._has_status:
            self._has_status = False
            back = f"\x1b[A\x1b[{self._wrap.column + 1}G" if self._wrap.column else ""
            self._write(f"\r\x1b[K{back}")

    def _write(self, text: str) -> None:
        if text:
            self._file.write(text)
            self._file.flush()


def _clean(span: Span) -> Span:
    """Return the span with invisible characters escaped, as names, arguments and reasons need it."""
    return escaped(span) if isinstance(span, str) else (escaped(span[0]), span[1])
