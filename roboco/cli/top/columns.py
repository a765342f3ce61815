"""Columns of a table that has to fit a terminal: ids are shortened, words and numbers never.

If the columns do not fit with their ids at the least width, the least important columns are left out.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

MIN_ID_CELLS = 13
"""Cells of a shortened id, such as "task_5c143a3…": enough to name the task in a command."""
GAP = 2
"""Cells between two columns."""


@dataclass(frozen=True)
class Column:
    """A heading with its cells."""

    heading: str
    cells: Sequence[Text]
    importance: int = 0
    """The columns of the lowest importance are left out first. Those of 0 always stay."""
    right: bool = False
    is_id: bool = False
    """True if the cells may be shortened."""
    keep_end: bool = False
    """True if a shortened cell keeps its end, such as the name of a file in a path."""

    @property
    def width(self) -> int:
        """The width at which nothing is shortened."""
        return max([len(self.heading), *(cell.cell_len for cell in self.cells)])

    @property
    def min_width(self) -> int:
        """The least width."""
        return max(len(self.heading), min(self.width, MIN_ID_CELLS)) if self.is_id else self.width

    def shortened(self, width: int) -> list[Text]:
        """Return the cells at this width."""
        return [cell if cell.cell_len <= width else _shortened(cell, width, self.keep_end) for cell in self.cells]


def fitted(columns: Sequence[Column], width: int) -> Table:
    """Return a table of these columns that is not wider than `width`, as far as its important columns allow."""
    kept = list(columns)
    while len(kept) > 1 and _total([column.min_width for column in kept]) > width:
        dispensable = [column for column in kept if column.importance]
        if not dispensable:
            break
        kept.remove(max(dispensable, key=lambda column: column.importance))
    left = width - _total([column.min_width for column in kept])
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, GAP, 0, 0))
    cells: list[list[Text]] = []
    for column in kept:
        more = min(left, column.width - column.min_width)
        left -= max(0, more)
        cells.append(column.shortened(column.min_width + max(0, more)))
        table.add_column(column.heading, justify="right" if column.right else "left", no_wrap=True)
    for row in zip(*cells, strict=True):
        table.add_row(*row)
    return table


def natural_width(columns: Sequence[Column]) -> int:
    """Return the width at which nothing is shortened or left out."""
    return _total([column.width for column in columns])


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * max(0, len(widths) - 1)


def _shortened(cell: Text, width: int, keep_end: bool) -> Text:
    text = cell.plain
    return Text(f"…{text[1 - width :]}" if keep_end else f"{text[: width - 1]}…", cell.style)
