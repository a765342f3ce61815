"""AsyncTaskStream: the merged stream of a task, live until it has ended; threads do everything that blocks.

live message ─► first follower at a place: items, their JSON ─► the other followers at this place: the same items
                follower that lacks steps: a thread reads them
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Sequence
from contextlib import aclosing
from functools import partial
from itertools import islice
from typing import Any, Final, TypeVar, cast

from roboco.client.stream import TASK_END, TaskStream, recheck_delays
from roboco.client.task_result import TaskResult
from roboco.domain.history.step import TaskStep
from roboco.domain.session.session import ContinuationToken
from roboco.domain.stream.item import StreamItem
from roboco.domain.stream.merged import Cursor, MergedStream
from roboco.domain.task_summary import TaskSummary
from roboco.process.threads import ThreadPool
from roboco.redis.stream.async_follower import AsyncFollower
from roboco.redis.stream.position import LiveRecord, Record, StreamPosition

T = TypeVar("T")
BATCH_ITEMS: Final = 100
"""Items of an ended task that a thread reads at a time."""
MAX_CHECK_SECONDS: Final = 1.0
"""Seconds for which a follower waits for the workspace to say whether the task has ended, before live messages."""
MAX_READERS: Final = 32
_READERS: Final = ThreadPool(MAX_READERS)
"""The threads that read workspaces for all followers of this process."""


class AsyncTaskStream:
    """Follows one task in the running event loop."""

    def __init__(self, stream: TaskStream, follower: AsyncFollower) -> None:
        self._stream = stream
        self._follower = follower
        self.last_status = ""
        """The status that `wait_at_rest` has read last."""

    def items_and_gaps(self, cursor: str | None) -> AsyncGenerator[StreamItem | None, None]:
        """Yield each item after the cursor, live until the task has ended, and None if there is none for now.

        Without a cursor, begin with the first item. Raises UsageError immediately if the cursor is invalid.
        """
        return self._items_and_gaps(Cursor.parse(cursor) if cursor else Cursor())

    async def wait_at_rest(self) -> TaskSummary:
        """Return the task as soon as it has ended or waits, and no accepted item ends its wait."""
        async with aclosing(self._follower.changes(self._stream.task_id)) as changes:
            async for event in changes:
                for delay in recheck_delays(event):
                    summary = await self._read_shared("summary", self._stream.summary)
                    self.last_status = str(summary.status)
                    # Not shared: a read that began before the caller sent a message does not have that message.
                    if await _READERS.run(partial(self._stream.stays_at_rest, summary)):
                        return summary
                    await self._check_workers()
                    await asyncio.sleep(delay)
        raise AssertionError("the iterator of changes does not end")

    async def changed(self, token: ContinuationToken) -> None:
        """Return as soon as the logs have a message after the position of the token of a session."""
        position = StreamPosition(token.generation, token.events, token.chunks)
        async with aclosing(self._follower.follow(self._stream.task_id, position)) as records:
            async for record in records:
                if record is not None:
                    return

    async def result(self, summary: TaskSummary) -> TaskResult:
        """Return the result of the task with this summary."""
        return await _READERS.run(lambda: self._stream.result(summary))

    async def step(self, seq: int) -> TaskStep | None:
        """Return the step at this position, or None if there is none."""
        return await _READERS.run(lambda: self._stream.step(seq))

    async def is_over(self) -> bool:
        """Return True if the task has ended, also if its workspace does not have the end yet."""
        return await _READERS.run(self._stream.is_over)

    async def _items_and_gaps(self, at: Cursor) -> AsyncGenerator[StreamItem | None, None]:
        view = MergedStream(at, self._stream.iter_steps)
        position = StreamPosition(at.generation, at.events, at.chunks)
        check = _EndCheck(lambda: self._read_shared("ended", self._stream.has_ended))
        following = self._follower.follow(self._stream.task_id, position)
        item: StreamItem | None
        async with aclosing(following) as records, aclosing(check):
            async for record in records:
                if record is not None:
                    items = _shared_items(view, record)
                    for item in await _items_with_steps(view, record) if items is None else items:
                        yield item
                    if record["type"] == TASK_END:
                        return
                    record = items = item = None  # a silent follower holds no message
                elif await check.has_ended():
                    break
                else:
                    if not check.is_pending:
                        await self._check_workers()
                    yield None
        async with aclosing(_in_batches(self._stream.remaining(view, position))) as remaining:
            async for item in remaining:
                yield item

    async def _check_workers(self) -> None:
        if self._stream.worker_check.is_due():
            await _READERS.run(self._stream.worker_check.check)

    async def _read_shared(self, name: str, read: Callable[[], T]) -> T:
        """Return the result of a read that all followers of the task in this loop share."""
        return await _READERS.run_shared((self._stream.engine_id, self._stream.task_id, name), read)


class _EndCheck:
    """Asks for one follower whether its task has ended, and lets a silent workspace delay no live message for long."""

    def __init__(self, read: Callable[[], Coroutine[Any, Any, bool]]) -> None:
        self._read = read
        self._pending: asyncio.Task[bool] | None = None

    @property
    def is_pending(self) -> bool:
        """True if the workspace has not answered yet."""
        return self._pending is not None

    async def has_ended(self) -> bool:
        """Return True if the task has ended according to its workspace.

        If the workspace does not answer in time, return False. The read goes on, and the next check takes its result.
        """
        pending = self._pending = self._pending or asyncio.create_task(self._read())
        await asyncio.wait([pending], timeout=MAX_CHECK_SECONDS)
        if not pending.done():
            return False
        self._pending = None
        return pending.result()

    async def aclose(self) -> None:
        """Wait for no answer any more."""
        if self._pending is not None:
            self._pending.cancel()


def _shared_items(view: MergedStream, record: Record) -> Sequence[StreamItem] | None:
    """Return the items of a record, or None if the view first has to read steps.

    Items depend on the place of a follower and on the record alone. So the first follower at a place makes them for
    all followers of the task in this loop.
    """
    before = view.cursor
    if isinstance(record, LiveRecord) and record.derived is not None and record.derived[0] == before:
        _, items, view.cursor = record.derived
        return cast(Sequence[StreamItem], items)
    if view.needs_steps(record):
        return None
    found = tuple(view.feed(record))
    if isinstance(record, LiveRecord):
        record.derived = before, found, view.cursor
    return found


async def _items_with_steps(view: MergedStream, record: Record) -> Sequence[StreamItem]:
    """Return the items of a record whose follower lacks steps. A thread reads them."""
    return await _READERS.run(lambda: list(view.feed(record)))


async def without_gaps(items: AsyncGenerator[StreamItem | None, None]) -> AsyncGenerator[StreamItem, None]:
    """Yield the items alone."""
    async with aclosing(items):
        async for item in items:
            if item is not None:
                yield item
                del item  # a silent follower holds no item


async def _in_batches(items: Iterator[StreamItem]) -> AsyncGenerator[StreamItem, None]:
    """Yield the items of an iterator that blocks."""
    while True:
        batch = await _READERS.run(lambda: list(islice(items, BATCH_ITEMS)))
        for item in batch:
            yield item
        if len(batch) < BATCH_ITEMS:
            return
