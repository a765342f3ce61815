"""TaskListSource: the changes of a list of tasks, as a stream that does not end by itself.

    task index ─► the newest tasks, once a second for all streams of the same list ─► changed since? ─► frame
                  more changes than one read has: `list_gap`, and the client reads the list again

Clocks of workers differ. So a read goes back a minute before the last one, and a stream remembers the versions that it
has shown. After a reconnection the tasks of that minute are shown again: a client keeps the latest of each task.
"""

import asyncio
import json
import re
import time
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final
from weakref import WeakValueDictionary

from roboco.domain.status import TaskStatus
from roboco.domain.task_entry import TaskEntry
from roboco.errors import TransientError
from roboco.gateway.calls import CallLine, Turns
from roboco.gateway.problem import Problem, invalid
from roboco.gateway.streams.form import Form, Source

POLL_INTERVAL: Final = 1.0
"""Seconds between two reads of the index."""
CLOCK_DIFFERENCE: Final = timedelta(minutes=1)
"""The clocks of workers differ by less, as a rule."""
FIRST_TASKS: Final = 200
"""Tasks that a stream without a place begins with."""
MAX_TASKS_READ: Final = 1000
"""Tasks that one read of the index returns at most."""
UNREACHABLE_TIMEOUT: Final = 60.0
"""Seconds for which a stream waits for an index that does not answer."""
SHARED_SECONDS: Final = POLL_INTERVAL / 2
"""Seconds for which the streams of a list use the same read."""
MAX_READS: Final = 4
"""Lists that are read at the same time: streams of many lists leave most threads to other requests."""
MAX_READS_OF_OWNER: Final = 2
"""Those of one owner: its many lists do not delay those of the others."""
_PLACE = re.compile(r"list-(\d{1,15})", re.ASCII)


@dataclass(frozen=True)
class ListPage:
    """The latest tasks of a list."""

    entries: tuple[TaskEntry, ...]
    """The tasks, the latest change first."""
    whole: bool
    """False if the list has further tasks since the time that was asked for."""
    complete: bool
    """False while the index is rebuilt: tasks may be missing."""


@dataclass(frozen=True)
class ListChange:
    """A change of a list: the type of its frame, the data in JSON, and its time, or None if the place stays."""

    kind: str
    data: str
    at: datetime | None = None


ReadList = Callable[[datetime | None, int], Coroutine[None, None, ListPage]]
"""Returns the tasks since a time, at most a number, whatever their status."""


def check_list_place(place: str) -> datetime | None:
    """Return the time of a place, or None for the beginning. Raise Problem if it is none."""
    if not place:
        return None
    if (matched := _PLACE.fullmatch(place)) is not None:
        with suppress(ValueError, OverflowError, OSError):
            return datetime.fromtimestamp(int(matched[1]) / 1000, UTC)
    raise invalid(f"{place[:80]!r} is not the id of an event of this stream", "leave it out, or send the last id")


class TaskListSource(Source[ListChange]):
    """The changes of a list after a time. A task that changes to another status than `statuses` leaves the list."""

    def __init__(
        self, read: ReadList, since: datetime | None, statuses: frozenset[TaskStatus], form: type[Form]
    ) -> None:
        self.form = form
        self._read = read
        self._since = since
        self._statuses = statuses
        self._shown: dict[str, tuple[int, datetime]] = {}
        self._read_at = datetime.now(UTC)

    async def items(self) -> AsyncGenerator[ListChange | None, None]:
        """Yield the tasks that a client lacks, the oldest change first, then each change."""
        since, complete = self._since, True
        self._read_at = datetime.now(UTC)
        page = await self._read(since and since - CLOCK_DIFFERENCE, FIRST_TASKS if since is None else MAX_TASKS_READ)
        if since is not None and not page.whole:
            yield ListChange("list_gap", "{}")
        while True:
            if complete != page.complete:  # a rebuild enters old tasks, too
                complete = page.complete
                yield ListChange("list_gap", json.dumps({"complete": complete}))
            for change in self._changes(page):
                yield change
            await asyncio.sleep(POLL_INTERVAL)
            page = await self._poll()
            if not page.whole and not any(self._is_shown(entry) for entry in page.entries):
                yield ListChange("list_gap", "{}")

    def frame(self, item: ListChange) -> bytes:
        """Return the frame of a change, and move the place to its time."""
        if item.at is not None and (self._since is None or item.at > self._since):
            self._since = item.at
        return self.form.frame(self.place, item.kind, item.data)

    @property
    def place(self) -> str:
        """The id with the time of the last change."""
        return "" if self._since is None else f"list-{int(self._since.timestamp() * 1000)}"

    async def _poll(self) -> ListPage:
        """Return the tasks since a minute before the last read. Raise the error of an index that stays silent."""
        until = time.monotonic() + UNREACHABLE_TIMEOUT
        while True:
            now = datetime.now(UTC)
            try:
                page = await self._read(self._read_at - CLOCK_DIFFERENCE, MAX_TASKS_READ)
            except (TransientError, Problem):
                if time.monotonic() > until:
                    raise
                await asyncio.sleep(POLL_INTERVAL)
            else:
                self._read_at = now
                return page

    def _changes(self, page: ListPage) -> list[ListChange]:
        new = [entry for entry in reversed(page.entries) if not self._is_shown(entry)]
        self._shown = {entry.task_id: _version_of(entry) for entry in page.entries}
        return [self._change(entry) for entry in new]

    def _change(self, entry: TaskEntry) -> ListChange:
        if entry.status in self._statuses:
            return ListChange("task_listed", entry.model_dump_json(), entry.updated_at)
        return ListChange("task_unlisted", json.dumps({"task_id": entry.task_id}), entry.updated_at)

    def _is_shown(self, entry: TaskEntry) -> bool:
        return self._shown.get(entry.task_id) == _version_of(entry)


def _version_of(entry: TaskEntry) -> tuple[int, datetime]:
    return entry.epoch, entry.updated_at


class SharedTaskList:
    """The tasks of a tenant, of some teams, that meet some conditions. All its streams share the newest read."""

    def __init__(self, read: ReadList) -> None:
        self._read = read
        self._lock = asyncio.Lock()
        self._since: datetime | None = None
        self._page = ListPage((), whole=True, complete=True)
        self._read_at = float("-inf")

    async def read(self, since: datetime | None, limit: int) -> ListPage:
        """Return the tasks since a time, at most a number. Raise Problem or TransientError if Redis is silent."""
        if since is None or limit != MAX_TASKS_READ:
            return await self._read(since, limit)
        async with self._lock:
            fresh = time.monotonic() - self._read_at < SHARED_SECONDS
            if not fresh or self._since is None or self._since > since:
                self._page = await self._read(since, limit)
                self._since, self._read_at = since, time.monotonic()
        entries = tuple(entry for entry in self._page.entries if entry.updated_at >= since)
        return ListPage(entries, self._page.whole, self._page.complete)


class TaskLists:
    """The lists that have a stream."""

    def __init__(self, read_page: Callable[..., Any], line: CallLine) -> None:
        self._read_page = read_page
        self._line = line
        self._turns = Turns(MAX_READS, MAX_READS_OF_OWNER)
        self._lists: WeakValueDictionary[str, SharedTaskList] = WeakValueDictionary()

    def of(self, tenant: str | None, teams: list[str] | None, text: str) -> SharedTaskList:
        """Return the list with these conditions. Streams with the same conditions get the same object."""
        conditions: dict[str, Any] = {"tenant": tenant, "team": teams, "text": text}
        found = self._lists.get(key := json.dumps(conditions))
        if found is None:
            found = self._lists[key] = SharedTaskList(partial(self._read, **conditions))
        return found

    async def _read(self, since: datetime | None, limit: int, **conditions: Any) -> ListPage:
        """Return a page of the task index. Lists take turns, and owners of lists do, too."""
        async with self._turns.hold():
            page = await self._line.run(self._read_page, limit=limit, since=since, **conditions)
        return ListPage(page.entries, whole=not page.cursor, complete=page.complete)
