"""AsyncTaskStream: the merged stream of `stream.py` in an event loop; threads do everything that blocks."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import aclosing
from itertools import islice
from typing import Final, TypeVar

from roboco.adapters.redis.stream.async_follower import AsyncFollower
from roboco.adapters.redis.stream.position import Record, StreamPosition
from roboco.adapters.threads import ThreadPool
from roboco.client.stream import TASK_END, TaskStream, is_at_rest, recheck_delays
from roboco.client.task_result import TaskResult
from roboco.domain.stream.item import StreamItem
from roboco.domain.stream.merged import Cursor, MergedStream
from roboco.domain.task_summary import TaskSummary

T = TypeVar("T")
BATCH_ITEMS: Final = 100
"""Items of an ended task that a thread reads at a time."""
MAX_READERS: Final = 32
_READERS: Final = ThreadPool(MAX_READERS)
"""The threads that read workspaces for all followers of this process."""


class AsyncTaskStream:
    """Follows one task in the running event loop."""

    def __init__(self, stream: TaskStream, follower: AsyncFollower) -> None:
        self._stream = stream
        self._follower = follower

    def items(self, cursor: str | None) -> AsyncGenerator[StreamItem, None]:
        """Yield the same items as `TaskStream.items`. Raises UsageError immediately if the cursor is invalid."""
        return self._items(Cursor.parse(cursor) if cursor else Cursor())

    async def wait_at_rest(self) -> TaskSummary:
        """Return the task as soon as it has ended or waits."""
        async with aclosing(self._follower.changes(self._stream.task_id)) as changes:
            async for event in changes:
                for delay in recheck_delays(event):
                    summary = await self._read_shared("summary", self._stream.summary)
                    if is_at_rest(summary):
                        return summary
                    await self._check_workers()
                    await asyncio.sleep(delay)
        raise AssertionError("the iterator of changes does not end")

    async def result(self, summary: TaskSummary) -> TaskResult:
        """Return the result of the task with this summary."""
        return await _READERS.run(lambda: self._stream.result(summary))

    async def _items(self, at: Cursor) -> AsyncGenerator[StreamItem, None]:
        view = MergedStream(at, self._stream.read_steps)
        position = StreamPosition(at.generation, at.events, at.chunks)
        async with aclosing(self._follower.follow(self._stream.task_id, position)) as records:
            async for record in records:
                if record is not None:
                    for item in await _items_of(view, record):
                        yield item
                    if record["type"] == TASK_END:
                        return
                elif await self._read_shared("ended", self._stream.has_ended):
                    break
                else:
                    await self._check_workers()
        async with aclosing(_in_batches(self._stream.remaining(view, position))) as remaining:
            async for item in remaining:
                yield item

    async def _check_workers(self) -> None:
        if self._stream.worker_check.is_due():
            await _READERS.run(self._stream.worker_check.check)

    async def _read_shared(self, name: str, read: Callable[[], T]) -> T:
        """Return the result of a read that all followers of the task in this loop share."""
        return await _READERS.run_shared((self._stream.engine_id, self._stream.task_id, name), read)


async def _items_of(view: MergedStream, record: Record) -> Iterable[StreamItem]:
    """Return the items of a record. If the view first has to read steps, a thread reads them."""
    if view.needs_steps(record):
        return await _READERS.run(lambda: list(view.feed(record)))
    return view.feed(record)


async def _in_batches(items: Iterator[StreamItem]) -> AsyncGenerator[StreamItem, None]:
    """Yield the items of an iterator that blocks."""
    while True:
        batch = await _READERS.run(lambda: list(islice(items, BATCH_ITEMS)))
        for item in batch:
            yield item
        if len(batch) < BATCH_ITEMS:
            return
