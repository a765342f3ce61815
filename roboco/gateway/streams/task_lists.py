"""TaskLists: reads of the task index that the streams of one list share."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from datetime import datetime
from typing import Any, Final
from weakref import WeakValueDictionary

from roboco.gateway.calls import CallLine, Turns
from roboco.gateway.streams.task_list_source import MAX_TASKS_READ, POLL_INTERVAL, ListPage

SHARED_SECONDS: Final = POLL_INTERVAL / 2
"""Seconds for which the streams of a list use the same read."""

MAX_READS: Final = 4
"""Lists that are read at the same time: streams of many lists leave most threads to other requests."""
MAX_READS_OF_OWNER: Final = 2
"""Those of one owner: its many lists do not delay those of the others."""

ReadTaskPage = Callable[..., Any]
"""`Orchestrator.task_page`."""
ReadPage = Callable[..., Coroutine[None, None, Any]]
"""The same, for the event loop."""


class SharedTaskList:
    """The tasks of a tenant, of some teams, that meet some conditions. All its streams share the newest read."""

    def __init__(self, read_page: ReadPage, tenant: str | None, teams: frozenset[str] | None, text: str) -> None:
        self._read_page = read_page
        self._tenant = tenant
        self._teams = teams
        self._text = text
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

    async def _read(self, since: datetime | None, limit: int) -> ListPage:
        teams = None if self._teams is None else sorted(self._teams)
        page = await self._read_page(limit=limit, tenant=self._tenant, team=teams, since=since, text=self._text)
        return ListPage(page.entries, whole=not page.cursor, complete=page.complete)


class TaskLists:
    """The lists that have a stream."""

    def __init__(self, read_page: ReadTaskPage, line: CallLine) -> None:
        self._read_page = read_page
        self._line = line
        self._turns = Turns(MAX_READS, MAX_READS_OF_OWNER)
        self._lists: WeakValueDictionary[tuple[str | None, frozenset[str] | None, str], SharedTaskList] = (
            WeakValueDictionary()
        )

    def of(self, tenant: str | None, teams: frozenset[str] | None, text: str) -> SharedTaskList:
        """Return the list with these conditions. Streams with the same conditions get the same object."""
        key = tenant, teams, text
        found = self._lists.get(key)
        if found is None:
            found = self._lists[key] = SharedTaskList(self._read, *key)
        return found

    async def _read(self, **options: Any) -> Any:
        """Return a page of the task index. Lists take turns, and owners of lists do, too."""
        async with self._turns.hold():
            return await self._line.run(self._read_page, **options)
