"""usage: reports of cost, tokens and calls of many tasks, from their histories.

    task index ─► tasks that may have worked on these days ─► usage of each ─► sums
    (pages of 500; or the folders of the workspace)           (16 at a time)
                                                               └── counted already: 1 request; else also its new steps
As of: a report holds every step that was committed before it began. Of a task that runs meanwhile it may hold later
steps as well. So a report on days that have ended is the same each time, unless a task is erased meanwhile, and one on
today is as of its beginning.

A report has a form as CSV and as JSON lines. The names of their columns and fields never change.
"""

import csv
import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, time, timedelta
from io import StringIO
from itertools import chain, islice
from typing import Any, Final

from roboco.client.options import TaskFilterOptions, UsageOptions
from roboco.client.task_list import iterate_with_gaps, task_filter
from roboco.domain.ids import what_if_id
from roboco.domain.schema import RecordModel
from roboco.domain.status import TaskStatus
from roboco.domain.task_entry import TaskEntry
from roboco.domain.task_filter import TaskFilter
from roboco.domain.task_summary import TaskSummary, entry_of
from roboco.domain.task_usage import TaskUsage
from roboco.domain.usage_table import MEASURES, Dimension, UsageRow, UsageTable, parse_dimensions
from roboco.engine.engine import Engine
from roboco.engine.selected_tasks import select_page
from roboco.engine.usage import task_usage
from roboco.errors import CorruptHistory, UsageError

DEFAULT_DAYS: Final = 30
"""Days of a report without a first day; today is the last of them."""
READ_THREADS: Final = 16
"""Tasks that are read at the same time."""
CHUNK_SIZE: Final = 100
"""Tasks between two reports of progress, also of those that do not match."""
MAX_PROBLEMS: Final = 20
"""Tasks without a readable history that a report names. It counts the others."""
_FOLDERS: Final = 200
_CLOCK_DIFFERENCE: Final = timedelta(hours=1)
"""A step's time and the time at which its task changed may be of two machines, and a step may be stored late."""
_EARLIEST: Final = date(1970, 1, 1)
_LATEST: Final = date(9000, 1, 1)
"""The days that a report may name: times an hour and a day beyond them exist, too."""


class UsageSummary(RecordModel):
    """The usage of the tasks of some days."""

    by: tuple[Dimension, ...]
    first_day: date
    last_day: date
    as_of: datetime
    """The time at which the report began: it holds every step that was committed before."""
    rows: list[UsageRow]
    total: UsageRow
    tasks: int
    """The number of tasks that were read."""
    complete: bool
    """False if tasks may be missing; `problems` says which."""
    problems: list[str]


class UsageCollector:
    """Reads the tasks of one report. Use it in one thread at a time."""

    def __init__(self, engine: Engine, own_tenant: str | None, by: str | Sequence[str], options: UsageOptions) -> None:
        self._engine = engine
        self._as_of = engine.now()
        today = self._as_of.date()
        self._first = options.get("since") or today - timedelta(days=DEFAULT_DAYS - 1)
        self._last = options.get("until") or today
        for name, day in (("since", self._first), ("until", self._last)):
            if not _EARLIEST <= day <= _LATEST:
                raise UsageError(f"{name} {day}: name a day from {_EARLIEST} to {_LATEST}")
        if self._last < self._first:
            raise UsageError(f"until {self._last} is before since {self._first}: name the later day as until")
        chosen = TaskFilterOptions(tenant=options.get("tenant"), team=options.get("team"))
        self._wanted = task_filter(own_tenant, chosen)
        self._by = parse_dimensions(by)
        self._table = UsageTable(self._by, self._first.isoformat(), self._last.isoformat())
        self._tasks = 0
        self._broken: list[str] = []
        self._begin = datetime.combine(self._first, time(), UTC)
        self._facts = None if options.get("all_tasks") else engine.tasks.task_index.page(self._wanted, limit=1)

    def collect(self) -> Iterator[int]:
        """Read all tasks. Yield the number of tasks after each hundred, also of those that do not match."""
        entries = self._stored() if self._facts is None else self._indexed()
        while read := tuple(islice(entries, CHUNK_SIZE)):
            chunk = [entry for entry in read if entry is not None]
            with ThreadPoolExecutor(READ_THREADS, thread_name_prefix="roboco-usage") as threads:
                found = list(threads.map(self._usage_or_none, chunk))
            for entry, usage in zip(chunk, found, strict=True):
                if usage is not None:
                    self._tasks += 1
                    is_run = what_if_id(entry.task_id) is not None
                    self._table.add(f"{entry.team} (what-if)" if is_run else entry.team, usage)
            yield self._tasks

    def report(self) -> UsageSummary:
        """Return the sums of the tasks that were read."""
        problems = [*self._gaps(), *self._broken[:MAX_PROBLEMS]]
        if (more := len(self._broken) - MAX_PROBLEMS) > 0:
            problems.append(f"{more} further tasks cannot be read")
        return UsageSummary(
            by=self._by,
            first_day=self._first,
            last_day=self._last,
            as_of=self._as_of,
            rows=self._table.rows(),
            total=self._table.total(),
            tasks=self._tasks,
            complete=not problems,
            problems=problems,
        )

    def _usage_or_none(self, entry: TaskEntry) -> TaskUsage | None:
        """Return the usage of the task, or None, with a problem, if its history is broken."""
        try:
            return task_usage(self._engine.workspace, entry.task_id, entry.steps if entry.status.ended else None)
        except CorruptHistory as error:
            self._broken.append(str(error))
            return None

    def _indexed(self) -> Iterator[TaskEntry | None]:
        """Yield the tasks of the index that may have worked on the days of the report, and None for each other one.

        A task that works at this moment may have any time of change, so those are read first. If it waits, or has
        ended, before its page of the second list is read, it changed after the first day and is in the second list.
        """
        index, wanted = self._engine.tasks.task_index, self._wanted
        working = TaskFilter(frozenset({TaskStatus.QUEUED, TaskStatus.RUNNING}), wanted.tenant, wanted.teams)
        changed = TaskFilter(tenant=wanted.tenant, teams=wanted.teams, since=self._begin - _CLOCK_DIFFERENCE)
        seen = set[str]()
        for entry in chain(iterate_with_gaps(index, working), iterate_with_gaps(index, changed)):
            if entry is None or entry.task_id in seen or not self._may_count(entry):
                yield None
            else:
                seen.add(entry.task_id)
                yield entry

    def _gaps(self) -> Iterator[str]:
        """Yield why the index may lack tasks of the report."""
        if self._facts is None:
            return
        kept_since = self._as_of - timedelta(seconds=self._engine.policy.index_retention)
        if not self._facts.complete:
            yield f"coordinators rebuild the task index, {self._facts.tasks_read} tasks are read so far: try later"
        if self._begin < max(kept_since, self._facts.trimmed_until or kept_since):
            yield "ended tasks of these days have left the task index: read all tasks of the workspace"

    def _may_count(self, entry: TaskEntry) -> bool:
        """Return False if the task is younger than the last day of the report."""
        end = datetime.combine(self._last, time(), UTC) + timedelta(days=1)
        return entry.created_at < end + _CLOCK_DIFFERENCE

    def _stored(self) -> Iterator[TaskEntry | None]:
        """Yield all tasks of the workspace that count, and None for each task or page that was read without one."""
        cursor, more = "", True
        while more:
            page = select_page(self._engine.workspace, self._matches, cursor, _FOLDERS, self._wanted.tenant)
            self._broken += page.broken
            yield from map(entry_of, page.tasks)
            yield from (None,) * (page.read - len(page.tasks) + 1)
            cursor, more = page.cursor, bool(page.cursor)

    def _matches(self, task: TaskSummary) -> bool:
        entry = entry_of(task)
        is_early = entry.status.ended and entry.updated_at < self._begin - _CLOCK_DIFFERENCE
        return self._wanted.matches(entry) and self._may_count(entry) and not is_early


def parse_day(text: str, today: date) -> date:
    """Return the day that `YYYY-MM-DD` names, or that was a number of days before today, such as `7d`.

    Raise UsageError for any other text.
    """
    try:
        if text.endswith("d") and text[:-1].isdecimal():
            return today - timedelta(days=int(text[:-1]))
        return date.fromisoformat(text)
    except (ValueError, OverflowError):
        raise UsageError(
            f"day {text[:40]!r} cannot be read: write YYYY-MM-DD, or a number of days such as 7d"
        ) from None


FORMULA_SIGNS: Final = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""First characters of a cell that a spreadsheet computes. Some accept wide forms, or spaces before them."""


def csv_lines(report: UsageSummary) -> Iterator[str]:
    """Yield the header and the rows as CSV (RFC 4180), each with its line end.

    A text that a spreadsheet would compute begins with an apostrophe, and signs that control a terminal are escaped as
    in JSON. Names of models come from their servers.
    """
    yield _csv_header(report.by)
    for row in report.rows:
        values = _values(report.by, row)
        cost = f"{values.pop('cost'):.9f}".rstrip("0").rstrip(".")
        yield _csv_line([*(_safe_cell(value) for value in values.values()), cost])


def _csv_header(by: tuple[Dimension, ...]) -> str:
    """Return the first line of the CSV."""
    return _csv_line([*by, *MEASURES])


def json_lines(report: UsageSummary) -> Iterator[str]:
    """Yield a line of type `row` for each row, and then one of type `report` with the total and its conditions."""
    for row in report.rows:
        yield _json_line({"type": "row", **_values(report.by, row)})
    facts = report.model_dump(mode="json", exclude={"rows", "total"})
    yield _json_line({"type": "report", **facts, "total": _values((), report.total)})


def _values(by: tuple[Dimension, ...], row: UsageRow) -> dict[str, Any]:
    return {name: getattr(row, name) for name in (*by, *MEASURES)}


def _safe_cell(value: object) -> object:
    if not isinstance(value, str):
        return value
    text = value if value.isprintable() else "".join(map(_printable, value))
    return f"'{text}" if value != value.lstrip() or value.startswith(FORMULA_SIGNS) else text


def _printable(sign: str) -> str:
    return sign if sign.isprintable() else json.dumps(sign)[1:-1]


def _csv_line(cells: list[object]) -> str:
    text = StringIO()
    csv.writer(text, lineterminator="\r\n").writerow(cells)
    return text.getvalue()


def _json_line(value: dict[str, Any]) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return f"{text if text.isprintable() else ''.join(map(_printable, text))}\n"
