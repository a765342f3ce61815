"""The view of `roboco top`: a head line, queues, models and workers below each other, then the tasks.

Ids and reasons are shortened to fit the terminal. It cuts off the lines that it has no room for.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from roboco.cli.terminal.format import age, counted, status_colour
from roboco.cli.terminal.sanitize import one_line
from roboco.cli.terminal.table import plain_table
from roboco.cli.top.snapshot import TaskRow, TopSnapshot
from roboco.domain.rate_report import RateReport
from roboco.domain.status import TaskStatus

WIDE = 110
"""Columns from which the table of tasks has all its columns."""
MAX_WORKERS = 8
"""Workers that are shown."""
LINES_OF_A_WORKER = 6
"""Lines of a terminal for each worker that is shown, so that tasks have room."""
MAX_REASONS = 3
"""Reasons that are shown above a table that has no room for them."""
MAX_NAME_CHARS = 24
"""Characters of the name of an agent or a team."""


class TopView:
    """A snapshot as rich renders it, in the columns and lines of the terminal; without `lines`, all of it."""

    def __init__(self, snapshot: TopSnapshot, address: str, lines: int | None) -> None:
        self._snapshot = snapshot
        self._address = address
        self._lines = lines

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        now = self._snapshot
        yield self._head()
        yield from (Text(one_line(error, 200), "red") for error in now.errors)
        yield from ("", _queues(now))
        if now.rates:
            yield from ("", _models(now.rates))
        yield from ("", *self._workers(), "")
        if now.open_tasks is None:
            yield Text("open tasks are not known", "red")
        elif not now.tasks:
            yield Text("no task is open", "dim")
        else:
            if options.max_width < WIDE:  # the table has no column of reasons
                waiting = [row.task for row in now.tasks if row.task.reason][:MAX_REASONS]
                yield from (Text(one_line(f"{task.task_id}: {task.reason}", 200), "yellow") for task in waiting)
            yield _tasks(now.tasks, now.at, options.max_width >= WIDE)

    def _head(self) -> Text:
        now = self._snapshot
        parts = [
            Text("roboco top", "bold"),
            Text("" if now.open_tasks is None else counted(now.open_tasks, "open task")),
            Text(counted(now.dead_letters, "dead letter") if now.dead_letters else "", "red"),
            Text("" if self._lines is None else "q ends", "dim"),
            Text(counted(now.streams, "follower")),
            Text(datetime.fromtimestamp(now.at).strftime("%H:%M:%S"), "dim"),
            Text(one_line(self._address, 60), "dim"),
        ]
        head = Text(" · ", "dim").join(part for part in parts if part.plain)
        head.no_wrap, head.overflow = True, "ellipsis"
        return head

    def _workers(self) -> Iterator[RenderableType]:
        workers = self._snapshot.workers
        if not workers:
            yield Text("no worker is registered", "red")
            return
        most = MAX_WORKERS if self._lines is None else min(MAX_WORKERS, max(1, self._lines // LINES_OF_A_WORKER))
        table = plain_table("worker", ">runs", "pools", ">heard")
        for one in sorted(workers, key=lambda one: (not one.alive, -one.active, one.name))[:most]:
            heard = "drains" if one.draining and one.alive else age(one.silent_for)
            cells = (_short(one.name), str(one.active), _short(", ".join(one.pools)), heard)
            table.add_row(*cells, style="" if one.alive else "red")
        yield table
        if len(workers) > most:
            yield Text(f"and {counted(len(workers) - most, 'more worker')}", "dim")


def _short(text: str, style: str = "", most: int = 100) -> Text:
    """Return a text on one line, which is shortened to fit."""
    return Text(one_line(text, most), style, no_wrap=True, overflow="ellipsis")


def _queues(now: TopSnapshot) -> Table:
    table = plain_table("queue", ">waiting", ">oldest", ">workers")
    for one in now.queues:
        oldest, consumers = "" if one.oldest_age is None else age(one.oldest_age), now.consumers(one.name)
        waiting = Text(str(one.waiting), "yellow" if one.waiting else "")
        table.add_row(one.name, waiting, oldest, Text(str(consumers), "" if consumers else "red"))
    return table


def _models(rates: Sequence[RateReport]) -> Table:
    table = plain_table("model", ">requests/min", ">tokens/min", ">wait", ">held back")
    for one in rates:
        used = _usage_cell(one.requests, one.max_requests), _usage_cell(one.tokens, one.max_tokens)
        pause = Text(age(one.pause_left) if one.pause_left else "", "red")
        table.add_row(_short(one.model), *used, str(one.waiting), pause)
    return table


def _usage_cell(used: int | None, most: int | None) -> Text:
    if most is None:
        return Text("" if used is None else str(used))
    full = used is not None and used >= most * 0.9
    return Text(f"{'many' if used is None else used} of {most}", "yellow" if full else "")


def _tasks(rows: Sequence[TaskRow], now: float, wide: bool) -> Table:
    further = (">in", ">out/s", ">followed", "team", "reason") if wide else ()
    table = plain_table("task", "<status", "agent", ">step", ">out", ">age", *further)
    for row in rows:
        task = row.task
        again = f" ({task.attempt}.)" if task.attempt > 1 else ""
        cells: list[Text | str] = [
            _short(task.task_id, "bold" if task.working else ""),
            Text(task.status, "cyan" if task.working else status_colour(TaskStatus(task.status))),
            _short(one_line(task.agent, MAX_NAME_CHARS) + again),
            str(task.seq),
            str(task.tokens_out),
            age(now - task.started_at),
        ]
        if wide:
            rate = f"{row.rate:.0f}" if row.rate else ""
            cells += [str(task.tokens_in), rate, str(task.followers), _short(row.team, most=MAX_NAME_CHARS)]
            cells.append(_short(task.reason, most=200))
        table.add_row(*cells)
    return table
