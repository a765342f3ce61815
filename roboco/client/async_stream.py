"""Following in an event loop: the merged stream of following.py, with all that blocks done in threads."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import aclosing
from itertools import islice
from typing import TypeVar

from roboco.adapters.redis.stream.async_follower import AsyncFollower
from roboco.adapters.redis.stream.position import Position, Record
from roboco.adapters.threads import Threads
from roboco.client.stream import TASK_END, Following, is_settled, looks
from roboco.client.task_result import TaskResult
from roboco.domain.stream.item import StreamItem
from roboco.domain.stream.merged import Cursor, View
from roboco.domain.task_summary import TaskSummary

T = TypeVar("T")
BATCH = 100
"""How many items of an ended task are read at a time."""
_READERS = Threads(32)
"""Who reads workspaces for all followers of this process."""


class AsyncFollowing:
    """Follows one task in the event loop that runs."""

    def __init__(self, following: Following, follower: AsyncFollower) -> None:
        self._following = following
        self._follower = follower

    def stream(self, cursor: str | None) -> AsyncGenerator[StreamItem, None]:
        """As `Following.stream`; a cursor that is none is refused at once."""
        return self._stream(Cursor.parse(cursor) if cursor else Cursor())

    async def settled(self) -> TaskSummary:
        """The task as soon as it has ended or waits."""
        async with aclosing(self._follower.stirs(self._following.task_id)) as stirs:
            async for event in stirs:
                for pause in looks(event):
                    summary = await self._once("summary", self._following.summary)
                    if is_settled(summary):
                        return summary
                    await self._attend()
                    await asyncio.sleep(pause)
        raise AssertionError("stirs do not end")

    async def result(self, summary: TaskSummary) -> TaskResult:
        """What the task with this summary has come to."""
        return await _READERS.run(lambda: self._following.result(summary))

    async def _stream(self, at: Cursor) -> AsyncGenerator[StreamItem, None]:
        view = View(at, self._following.read_steps)
        position = Position(at.generation, at.events, at.chunks)
        async with aclosing(self._follower.follow(self._following.task_id, position)) as records:
            async for record in records:
                if record is not None:
                    for item in await _taken(view, record):
                        yield item
                    if record["type"] == TASK_END:
                        return
                elif await self._once("ended", self._following.ended):
                    break
                else:
                    await self._attend()
        async with aclosing(_in_batches(self._following.rest(view, position))) as rest:
            async for item in rest:
                yield item

    async def _attend(self) -> None:
        if self._following.attendance.is_due():
            await _READERS.run(self._following.attendance.check)

    async def _once(self, what: str, read: Callable[[], T]) -> T:
        return await _READERS.once((self._following.place, self._following.task_id, what), read)


async def _taken(view: View, record: Record) -> Iterable[StreamItem]:
    """The items of a message; the event loop goes on while steps are read that it lacks."""
    if view.lacks_steps(record):
        return await _READERS.run(lambda: list(view.take(record)))
    return view.take(record)


async def _in_batches(items: Iterator[StreamItem]) -> AsyncGenerator[StreamItem, None]:
    """The items, which block while they are made."""
    while True:
        batch = await _READERS.run(lambda: list(islice(items, BATCH)))
        for item in batch:
            yield item
        if len(batch) < BATCH:
            return
