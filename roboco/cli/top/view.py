"""The view of `roboco top`: a head line, queues, models and workers beside or below each other, then the tasks."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from roboco.cli.terminal.format import age, status_colour
from roboco.cli.terminal.sanitize import one_line
from roboco.cli.top.columns import Column, fitted, natural_width
from roboco.cli.top.snapshot import TaskRow, TopSnapshot
from roboco.client.operator.operations import WorkerReport
from roboco.domain.rate_report import RateReport
from roboco.domain.status import TaskStatus

BESIDE_WIDTH = 150
"""Columns from which workers are shown beside queues."""
MAX_WORKERS = 8
"""Workers that are shown."""
MIN_LINES = 24
"""Lines below which workers and queues are only counted, unless there is room beside each other."""
MAX_NAME_CHARS = 24
"""Characters of the name of an agent or a team."""


class TopView:
    """A snapshot as rich renders it, in the columns and lines of the terminal; without `lines`, all of it."""

    def __init__(self, snapshot: TopSnapshot, address: str, lines: int | None) -> None:
        self._snapshot = snapshot
        self._address = address
        self._lines = lines

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = options.max_width
        above: list[RenderableType] = [
            self._head(width),
            *self._errors(),
            Text(""),
            self._workers_and_queues(width),
            Text(""),
        ]
        used = len(console.render_lines(Group(*above), options)) + 2
        rows = self._snapshot.tasks if self._lines is None else self._snapshot.tasks[: max(1, self._lines - used)]
        yield from above
        if self._snapshot.open_tasks is None:
            yield Text("open tasks are not known", "red")
            return
        yield _tasks(rows, width, self._snapshot.at)
        if (more := self._snapshot.open_tasks - len(rows)) > 0:
            yield Text(f"and {_count(more, 'more open task')}", "dim")

    def _head(self, width: int) -> Text:
        """Return the head line. The parts that do not fit are left out, the least important one first."""
        now = self._snapshot
        parts = [
            (0, Text("roboco top", "bold")),
            (1, Text("" if now.open_tasks is None else _count(now.open_tasks, "open task"))),
            (4, Text(_count(now.streams, "follower"))),
            (2, Text(_count(now.dead_letters, "dead letter") if now.dead_letters else "", "red")),
            (6, Text(one_line(self._address, 60), "dim")),
            (5, Text(datetime.fromtimestamp(now.at).strftime("%H:%M:%S"), "dim")),
            (3, Text("q ends" if self._lines is not None else "", "dim")),
        ]
        parts = [(rank, part) for rank, part in parts if part.plain]
        while len(parts) > 2 and sum(part.cell_len + 3 for _, part in parts) - 3 > width:
            parts.remove(max(parts, key=lambda part: part[0]))
        return Text(" · ", "dim").join(part for _, part in parts)

    def _errors(self) -> Iterable[Text]:
        return (Text(one_line(error, 200), "red") for error in self._snapshot.errors)

    def _workers_and_queues(self, width: int) -> RenderableType:
        if width < BESIDE_WIDTH and self._lines is not None and self._lines < MIN_LINES:
            return _one_line_summary(self._snapshot)
        if width < BESIDE_WIDTH:
            return Group(*self._queues_and_models(width), Text(""), self._workers(width))
        left = max(map(natural_width, (_queue_columns(self._snapshot), _rate_columns(self._snapshot.rates))))
        left = min(left, width // 2)
        grid = Table.grid(padding=(0, 4))
        grid.add_row(Group(*self._queues_and_models(left)), self._workers(width - left - 4))
        return grid

    def _queues_and_models(self, width: int) -> Iterable[RenderableType]:
        yield fitted(_queue_columns(self._snapshot), width)
        if self._snapshot.rates:
            yield Text("")
            yield fitted(_rate_columns(self._snapshot.rates), width)

    def _workers(self, width: int) -> RenderableType:
        return _workers(self._snapshot.workers, width)


def _queue_columns(snapshot: TopSnapshot) -> list[Column]:
    queues = snapshot.queues
    consumers = [snapshot.consumers(queue.name) for queue in queues]
    oldest = ["" if queue.oldest_age is None else age(queue.oldest_age) for queue in queues]
    return [
        Column("queue", _plain(queue.name for queue in queues)),
        Column("waiting", [Text(str(one.waiting), "yellow" if one.waiting else "") for one in queues], right=True),
        Column("oldest", _plain(oldest), 1, right=True),
        Column("workers", [Text(str(count), "" if count else "red") for count in consumers], right=True),
    ]


def _rate_columns(rates: Sequence[RateReport]) -> list[Column]:
    return [
        Column("model", _plain(one_line(one.model, 100) for one in rates), is_id=True, keep_end=True),
        Column("requests/min", [_usage_cell(one.requests, one.max_requests) for one in rates], 2, right=True),
        Column("tokens/min", [_usage_cell(one.tokens, one.max_tokens) for one in rates], 3, right=True),
        Column("wait", _plain(str(one.waiting) for one in rates), 1, right=True),
        Column("held back", [Text(age(one.pause_left) if one.pause_left else "", "red") for one in rates], right=True),
    ]


def _workers(workers: Sequence[WorkerReport], width: int) -> RenderableType:
    if not workers:
        return Group(Text("worker", "dim"), Text("no worker is registered", "red"))
    first = sorted(workers, key=lambda one: (not one.alive, -one.active, one.name))[:MAX_WORKERS]
    styles = ["" if one.alive else "red" for one in first]

    def cells(texts: Iterable[str]) -> list[Text]:
        return [Text(text, style) for text, style in zip(texts, styles, strict=True)]

    heard = ("drains" if one.draining and one.alive else age(one.silent_for) for one in first)
    table = fitted(
        [
            Column("worker", cells(one_line(one.name, 60) for one in first), is_id=True),
            Column("runs", cells(str(one.active) for one in first), right=True),
            Column("pools", cells(", ".join(one.pools) for one in first), 1),
            Column("heard", cells(heard), right=True),
        ],
        width,
    )
    if len(workers) <= MAX_WORKERS:
        return table
    return Group(table, Text(f"and {len(workers) - MAX_WORKERS} more workers", "dim"))


def _one_line_summary(snapshot: TopSnapshot) -> Text:
    waiting = ", ".join(f"{one.waiting} {one.name.rpartition('.')[2]}" for one in snapshot.queues)
    alive = sum(1 for one in snapshot.workers if one.alive)
    gone = len(snapshot.workers) - alive
    return Text.assemble(
        "1 worker" if alive == 1 else f"{alive} workers",
        (f", {gone} lost" if gone else "", "red"),
        f" · waiting: {waiting}",
    )


def _usage_cell(used: int | None, most: int | None) -> Text:
    if most is None:
        return Text("" if used is None else str(used))
    full = used is not None and used >= most * 0.9
    return Text(f"{'many' if used is None else used} of {most}", "yellow" if full else "")


def _tasks(rows: Sequence[TaskRow], width: int, now: float) -> RenderableType:
    if not rows:
        return Text("no task is open", "dim")
    columns = _task_columns(rows, now)
    table = fitted(columns, width)
    left = width - natural_width(columns) - 2
    if left >= 20:  # the reason takes the rest of a wide terminal
        reasons = _plain(_whole_words(row.task.reason, min(left, 80)) for row in rows)
        table = fitted([*columns, Column("reason", reasons)], width)
    return table


def _task_columns(rows: Sequence[TaskRow], now: float) -> list[Column]:
    tasks = [row.task for row in rows]
    again = [f" ({task.attempt}.)" if task.attempt > 1 else "" for task in tasks]
    agents = [one_line(task.agent, MAX_NAME_CHARS) + more for task, more in zip(tasks, again, strict=True)]
    return [
        Column("task", [Text(one_line(one.task_id, 64), "bold" if one.working else "") for one in tasks], is_id=True),
        Column("team", _plain(one_line(row.team, MAX_NAME_CHARS) for row in rows), 6),
        Column("status", [Text(one.status, "cyan" if one.working else _colour(one.status)) for one in tasks]),
        Column("agent", _plain(agents), 1),
        Column("step", _plain(str(task.seq) for task in tasks), 3, right=True),
        Column("in", _plain(str(task.tokens_in) for task in tasks), 7, right=True),
        Column("out", _plain(str(task.tokens_out) for task in tasks), 4, right=True),
        Column("out/s", _plain(map(_rate, rows)), 8, right=True),
        Column("followed", _plain(str(task.followers) for task in tasks), 9, right=True),
        Column("age", _plain(age(now - task.started_at) for task in tasks), 2, right=True),
    ]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _whole_words(text: str, width: int) -> str:
    """Return the beginning of the text that fits, up to the end of a word."""
    line = one_line(text, 200)
    return line if len(line) <= width else f"{line[: width - 1].rpartition(' ')[0]} …"


def _plain(texts: Iterable[str]) -> list[Text]:
    return [Text(text) for text in texts]


def _colour(status: str) -> str:
    return status_colour(TaskStatus(status))


def _rate(row: TaskRow) -> str:
    return f"{row.rate:.0f}" if row.rate else ""
