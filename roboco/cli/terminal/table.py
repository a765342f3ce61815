"""Tables without lines, for lists on a terminal."""

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import click
from rich.table import Table
from rich.text import Text

from roboco.cli.terminal.json_output import print_json
from roboco.cli.terminal.sanitize import one_line
from roboco.cli.terminal.screen import Screen

_Entry = TypeVar("_Entry")
MAX_CELL_CHARS = 500
"""Characters of a cell that is a plain text."""


def plain_table(*headings: str) -> Table:
    """Return a table. The cells below ">" are on the right side; these and those below "<" are kept whole.

    Those below "…" are cut off where the line ends.
    """
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in headings:
        table.add_column(
            heading.lstrip("<>…"),
            justify="right" if heading.startswith(">") else "left",
            no_wrap=heading.startswith((">", "<", "…")),
            overflow="ellipsis" if heading.startswith("…") else "fold",
        )
    return table


def text_table(headings: Sequence[str], rows: Iterable[Iterable[str | Text]]) -> Table:
    """Return a table with these rows. A plain text becomes one line, with invisible characters escaped."""
    table = plain_table(*headings)
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else Text(one_line(cell, MAX_CELL_CHARS)) for cell in row))
    return table


def print_entries(
    as_json: bool,
    entries: Sequence[_Entry],
    headings: Sequence[str],
    cells: Callable[[_Entry], Iterable[str | Text]],
    none: str,
) -> None:
    """Print the entries as JSON, or as a table with a row for each. Without entries, people read `none`."""
    if as_json:
        print_json(entries)
    elif entries:
        Screen(sys.stdout).table(text_table(headings, map(cells, entries)))
    else:
        click.echo(none)
