"""Screen: output to a terminal or a pipe; it removes control characters of models, tools and users."""

from typing import TextIO

from rich.console import Console, RenderableType
from rich.text import Text

from roboco.cli.terminal.sanitize import escape_invisible, strip_control
from roboco.cli.terminal.word_wrap import WordWrap, break_lines

TextSpan = str | tuple[str, str]
"""A piece of a line: a text, or a text with its rich style."""

PIPE_WIDTH = 2000
"""Columns of a table, if the output is no terminal: ids and reasons are not folded."""


class Screen:
    """Prints and flushes each text. If the output is no terminal, it prints no colours and no control codes."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        width = None if file.isatty() else PIPE_WIDTH
        self._console = Console(file=file, highlight=False, markup=False, emoji=False, soft_wrap=True, width=width)
        self._wrap = WordWrap()
        self._at_line_start = True
        self._has_status = False

    @property
    def is_terminal(self) -> bool:
        """True if the output is a terminal."""
        return self._file.isatty()

    def write(self, text: str) -> None:
        """Print a piece of running text. A terminal gets it with line ends between words."""
        if not (shown := strip_control(text)):
            return
        if self.is_terminal:
            self._clear_status()
            shown = self._wrap.feed(shown, self._console.width)
        else:
            self._at_line_start = shown.endswith("\n")
        self._write(shown)

    def line(self, *spans: TextSpan) -> None:
        """Print a separate line, after the running text. The terminal breaks it, so that it can be copied."""
        self._end_text()
        self._console.print(Text.assemble(*map(escape_span, spans)))

    def paragraph(self, *spans: TextSpan, indent: int = 0) -> None:
        """Print a separate line; a terminal gets it broken between words, with further lines indented."""
        self._end_text()
        text = Text.assemble(*map(escape_span, spans))
        for line in break_lines(text, self._console.width, indent) if self.is_terminal else [text]:
            self._console.print(line)

    def status(self, text: str) -> None:
        """Show a line below the running text of a terminal until anything else is printed; "" removes it."""
        if not self.is_terminal:
            return
        self._write(self._wrap.flush(self._console.width))
        self._clear_status()
        if text:
            below = "\n" if self._wrap.column else ""
            self._write(f"{below}\x1b[2m{escape_invisible(text)[: self._console.width - 1]}\x1b[0m")
            self._has_status = True

    def blank(self) -> None:
        """End the running text and print an empty line."""
        self._end_text()
        self._console.print()

    def table(self, table: RenderableType) -> None:
        """Print a table, or several, whose cells are Text."""
        self._end_text()
        self._console.print(table, soft_wrap=False)

    def _end_text(self) -> None:
        """End the running text, whose last word was held back, so that a separate line can follow."""
        if self.is_terminal:
            self._clear_status()
            self._write(self._wrap.flush(self._console.width))
            self._at_line_start = self._wrap.column == 0
            self._wrap = WordWrap()
        if not self._at_line_start:
            self._write("\n")
            self._at_line_start = True

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


def escape_span(span: TextSpan) -> TextSpan:
    """Return the span with invisible characters escaped, as names, arguments and reasons need it."""
    return escape_invisible(span) if isinstance(span, str) else (escape_invisible(span[0]), span[1])
