"""The layout of `roboco top`: a head line, then workers, queues and models, then the tasks."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from roboco.adapters.celery.worker_monitor import WorkerNow
from roboco.adapters.redis.monitor import RateNow
from roboco.cli.terminal.format import age, colour
from roboco.cli.terminal.sanitize import one_line
from roboco.cli.top.snapshot import TaskRow, TopPicture
from roboco.domain.status import TaskStatus

TWO_COLUMNS_WIDTH: Final = 130
"""Columns from which on workers are beside queues, and the reason of a task is shown."""
NARROW_WIDTH: Final = 70
"""Columns below which only the most important columns are shown."""
TEAM_WIDTH: Final = 110
"""Columns from which on the team of a task is shown."""
MAX_WORKERS: Final = 8
"""Workers that are shown at most."""
SHORT_HEIGHT: Final = 24
"""Lines below which workers and queues are only counted, unless they fit beside each other."""


class TopView:
    """A snapshot that rich renders into the columns of the console and these `lines`; all of it if `lines` is None."""

    def __init__(self, picture: TopPicture, where: str, lines: int | None) -> None:
        self._picture = picture
        self._where = where
        self._lines = lines

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = options.max_width
        above: list[RenderableType] = [self._head(width), *self._errors(), Text(""), self._machines(width), Text("")]
        used = len(console.render_lines(Group(*above), options)) + 2
        rows = self._picture.tasks if self._lines is None else self._picture.tasks[: max(1, self._lines - used)]
        yield from above
        yield _tasks(rows, width, self._picture.at)
        if (more := self._picture.open_tasks - len(rows)) > 0:
            yield Text(f"and {more} more open tasks", "dim")

    def _head(self, width: int) -> Text:
        now = self._picture
        dead = (f" · {now.dead_letters} dead letters", "red" if now.dead_letters else "")
        clock = datetime.fromtimestamp(now.at).strftime("%H:%M:%S")
        where = f" · {one_line(self._where, 60)}" if width >= NARROW_WIDTH else ""
        keys = " · q ends" if self._lines is not None else ""
        return Text.assemble(
            ("roboco top", "bold"),
            f" · {now.open_tasks} open tasks · {now.streams} followers",
            dead,
            (f"{where} · {clock}{keys}", "dim"),
            no_wrap=True,
            overflow="ellipsis",
        )

    def _errors(self) -> Iterable[Text]:
        return (Text(one_line(error, 200), "red", overflow="fold") for error in self._picture.errors)

    def _machines(self, width: int) -> RenderableType:
        if width < TWO_COLUMNS_WIDTH and self._lines is not None and self._lines < SHORT_HEIGHT:
            return _counted(self._picture)
        queues = Group(_queues(self._picture), *self._models())
        workers = _workers(self._picture.workers, self._picture.at)
        if width < TWO_COLUMNS_WIDTH:
            return Group(queues, Text(""), workers)
        grid = Table.grid(padding=(0, 4))
        grid.add_row(queues, workers)
        return grid

    def _models(self) -> Iterable[RenderableType]:
        if self._picture.rates:
            yield Text("")
            yield _rates(self._picture.rates)


def _table(*left: str, right: Sequence[str] = ()) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for number, heading in enumerate(left):
        table.add_column(heading, no_wrap=True, overflow="ellipsis", min_width=0 if number else 12)
    for heading in right:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _queues(picture: TopPicture) -> Table:
    table = _table("queue", right=("waiting", "oldest", "workers"))
    for queue in picture.queues:
        consumers = picture.consumers(queue.name)
        table.add_row(
            queue.name,
            Text(str(queue.waiting), "yellow" if queue.waiting else ""),
            "" if queue.oldest is None else age(picture.at - queue.oldest),
            Text(str(consumers), "" if consumers else "red"),
        )
    return table


def _workers(workers: Sequence[WorkerNow], now: float) -> RenderableType:
    table = _table("worker", right=("runs", "ended", "load", "heard"))
    first = sorted(workers, key=lambda one: (not one.alive(now), -one.active, one.name))
    for one in first[:MAX_WORKERS]:
        style = "" if one.alive(now) else "red"
        heard = "ended" if one.stopped else age(now - one.seen)
        cells = (one_line(one.name, 40), str(one.active), str(one.processed), f"{one.load:.1f}", heard)
        table.add_row(*(Text(cell, style) for cell in cells))
    if not workers:
        table.add_row(Text("no worker has reported", "red"))
    more = len(workers) - MAX_WORKERS
    return Group(table, Text(f"and {more} more workers", "dim")) if more > 0 else table


def _counted(picture: TopPicture) -> Text:
    """Return the numbers of queues and workers on one line."""
    waiting = ", ".join(f"{one.waiting} {one.name.rpartition('.')[2]}" for one in picture.queues)
    alive = sum(1 for one in picture.workers if one.alive(picture.at))
    gone = len(picture.workers) - alive
    return Text.assemble(
        f"{alive} workers",
        (f", {gone} lost or ended" if gone else "", "red"),
        f" · waiting: {waiting}",
        no_wrap=True,
        overflow="ellipsis",
    )


def _rates(rates: Sequence[RateNow]) -> Table:
    table = _table("model", right=("requests/min", "tokens/min", "wait", "held back"))
    for one in rates:
        table.add_row(
            one_line(one.model, 32),
            _used(one.requests, one.most_requests),
            _used(one.tokens, one.most_tokens),
            str(one.waiting),
            Text(age(one.held_back), "red") if one.held_back else "",
        )
    return table


def _used(used: int | None, most: int | None) -> Text:
    if most is None:
        return Text("" if used is None else str(used))
    full = used is not None and used >= most * 0.9
    return Text(f"{'many' if used is None else used} of {most}", "yellow" if full else "")


def _tasks(rows: Sequence[TaskRow], width: int, now: float) -> RenderableType:
    if not rows:
        return Text("no task is open", "dim")
    wide, narrow, widest = width >= TEAM_WIDTH, width < NARROW_WIDTH, width >= TWO_COLUMNS_WIDTH
    table = _table("task", *(["team"] if wide else []), "status", "agent", right=_figures(narrow))
    if widest:
        table.add_column("reason", no_wrap=True, overflow="ellipsis", ratio=1)
    for row in rows:
        task = row.task
        status = Text(task.status, colour(TaskStatus(task.status)) if not task.working else "cyan")
        again = f" ({task.attempt}.)" if task.attempt > 1 else ""
        cells: list[str | Text] = [Text(one_line(task.task_id, 24 if narrow else 40), "bold" if task.working else "")]
        cells += [one_line(row.team, 24)] if wide else []
        cells += [status, one_line(task.agent, 20) + again, str(task.seq)]
        cells += [] if narrow else [str(task.tokens_in)]
        cells += [str(task.tokens_out)]
        cells += [] if narrow else [_rate(row), str(task.followers)]
        cells += [age(now - task.started_at)]
        table.add_row(*cells, *([one_line(task.reason, 80)] if widest else []))
    return table


def _figures(narrow: bool) -> tuple[str, ...]:
    return ("step", "out", "age") if narrow else ("step", "in", "out", "out/s", "followed", "age")


def _rate(row: TaskRow) -> str:
    return f"{row.rate:.0f}" if row.rate else ""
