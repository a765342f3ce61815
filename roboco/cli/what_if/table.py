"""The table of a comparison: the task and its runs, a line each."""

import sys
from typing import Final

from rich.table import Table
from rich.text import Text

from roboco.cli.terminal.format import status_colour
from roboco.cli.terminal.sanitize import one_line
from roboco.cli.terminal.screen import Screen
from roboco.domain.replay.run_comparison import RunRow, WhatIfReport
from roboco.domain.status import TaskStatus

_ROUTE_CHARS: Final = 80
_RESULT_CHARS: Final = 60
_REASON_CHARS: Final = 120


def print_report(report: WhatIfReport) -> None:
    """Print the comparison, and the ids of the runs with the reasons of their statuses."""
    screen = Screen(sys.stdout)
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("run", "status", "route", "result", "differs"):
        table.add_column(heading, overflow="fold")
    for heading in ("tokens", "cost", "seconds", "recorded", "run", "refused"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_row(*_cells("task", report.task, ""))
    for number, row in enumerate(report.runs, 1):
        table.add_row(*_cells(str(number), row, _difference(row)))
    screen.table(table)
    screen.blank()
    for number, row in enumerate(report.runs, 1):
        reason = f": {one_line(row.reason, _REASON_CHARS)}" if row.reason else ""
        screen.line((f"{number} is {row.task_id}{reason}", "dim"))


def _cells(name: str, row: RunRow, difference: str) -> list[Text]:
    texts = (
        one_line(" > ".join(row.route), _ROUTE_CHARS),
        one_line(row.result, _RESULT_CHARS),
        difference,
        f"{row.tokens_in + row.tokens_out}",
        f"{row.cost:.4g}",
        f"{row.seconds:.1f}",
        *(str(count) for count in (row.calls.recorded, row.calls.run, row.calls.refused)),
    )
    return [Text(name), Text(row.status, style=status_colour(TaskStatus(row.status))), *map(Text, texts)]


def _difference(row: RunRow) -> str:
    """Return the first step that takes another route, else the first one that differs in another way."""
    if row.route_differs_at is not None:
        return f"step {row.route_differs_at}: route"
    found = row.difference
    return "nothing" if found is None else f"step {found.seq}: {found.what}"
