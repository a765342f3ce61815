"""sub_task_stream: the stream of a task, and in it those of its sub-tasks, at any depth.

    task ─► step with calls of `delegate` ─► its next items, and those of the sub-tasks as they arrive
            result of such a call         ─► first the rest of its sub-task, then the result

So a cursor needs the place in the task, and the places in the sub-tasks of its open calls, in the order of the calls:

    PLACE            no such call is open
    PLACE,PLACE,,-   the first sub-task is at a place, the second one at its beginning, the third one is complete
    PLACE,(PLACE,-)  the same for the open calls of a sub-task

The history names these tasks, so a cursor does not. MAX_FOLLOWED sub-tasks are read at the same time, and
NESTED_FOLLOWED of each of those; the others wait, because their logs stay. What an abandoned sub-task does after the
result of its call is not in the stream.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Final, Protocol

from roboco.domain.builtin_tools import DELEGATE
from roboco.domain.history.step import TaskStep
from roboco.domain.ids import sub_task_id
from roboco.domain.stream.event import TaskEnded
from roboco.domain.stream.item import StepFinal, StreamItem, ToolResultItem
from roboco.domain.stream.merged import COMPLETE, MAX_SUB_PLACES, Cursor, split_cursor
from roboco.errors import Erased

MAX_FOLLOWED: Final = 20
"""Sub-tasks that a follower reads at the same time. Their places bound the size of a cursor."""
NESTED_FOLLOWED: Final = 2
"""Those of a sub-task."""
NESTED_PLACES: Final = 20
"""The most sub-tasks of a step of a sub-task that a follower reads."""


class OneTask(Protocol):
    """The stream of one task, without its sub-tasks."""

    def items_and_gaps(self, cursor: str | None) -> AsyncGenerator[StreamItem | None, None]:
        """Yield each item after the cursor, live until the task has ended, and None if there is none for now."""

    async def step(self, seq: int) -> TaskStep | None:
        """Return the step at this position, or None if there is none."""

    async def is_over(self) -> bool:
        """Return True if the task has ended, also if its workspace does not have the end yet."""


class SubTaskStream:
    """Follows a task and its sub-tasks in the running event loop. `stream_of` returns the stream of one task."""

    def __init__(self, task_id: str, stream_of: Callable[[str], OneTask], nested: bool = False) -> None:
        self._task_id = task_id
        self._stream_of = stream_of
        self._most = (NESTED_FOLLOWED, NESTED_PLACES) if nested else (MAX_FOLLOWED, MAX_SUB_PLACES)
        self._place = ""
        self._places: dict[str, str] = {}
        """The places in the sub-tasks of the open calls."""
        self._streams: dict[str, AsyncGenerator[StreamItem | None, None]] = {}
        self._reads: dict[str, asyncio.Task[StreamItem | None]] = {}
        self._ended = False

    def items(self, cursor: str | None) -> AsyncGenerator[StreamItem | None, None]:
        """Yield each item after the cursor, with its task, and None if the task has no further item for now.

        Raises UsageError immediately if the cursor is invalid.
        """
        return self._items(split_cursor(cursor) if cursor else [""])

    async def _items(self, places: list[str]) -> AsyncGenerator[StreamItem | None, None]:
        self._place, *before = places
        seq = Cursor.parse(self._place).steps - 1 if self._place else -1
        if seq >= 0 and (step := await self._stream_of(self._task_id).step(seq)) is not None:
            self._open(step, before)
        try:
            async for item in self._merged():
                yield item
        finally:
            for task_id in list(self._streams):
                await self._close(task_id)

    async def _merged(self) -> AsyncGenerator[StreamItem | None, None]:
        held: StreamItem | None = None
        awaited: Collection[str] = ()
        while not self._ended:
            if held is not None and not any(map(self._is_open, awaited)):
                yield self._moved(self._task_id, held)
                held = None
            self._read(awaited if held is not None else [self._task_id, *self._followed()])
            await asyncio.wait(self._reads.values(), return_when=asyncio.FIRST_COMPLETED)
            for task_id, item in self._arrived():
                if item is None:
                    yield None
                elif task_id == self._task_id and (awaited := self._awaited(item)):
                    held = item
                    await self._abandon_running(awaited)
                else:
                    yield self._moved(task_id, item)

    def _arrived(self) -> Iterator[tuple[str, StreamItem | None]]:
        """Yield the items that have been read, with their tasks, and None if the task itself has none for now."""
        for task_id in [task_id for task_id, read in self._reads.items() if read.done()]:
            if (read := self._reads.pop(task_id, None)) is None:
                continue  # it was abandoned since
            try:
                item = read.result()
            except (StopAsyncIteration, Erased) as error:
                self._streams.pop(task_id)
                if task_id != self._task_id:
                    self._places[task_id] = COMPLETE
                elif isinstance(error, Erased):
                    raise
                else:
                    self._ended = True
                continue
            if item is not None or task_id == self._task_id:
                yield task_id, item

    def _followed(self) -> list[str]:
        """Return the sub-tasks of which the next items are read."""
        return list(filter(self._is_open, self._places))[: self._most[0]]

    def _read(self, task_ids: Collection[str]) -> None:
        """Begin to read the next item of these tasks, unless it is being read."""
        for task_id in task_ids:
            if task_id in self._reads or not (task_id == self._task_id or self._is_open(task_id)):
                continue
            if task_id not in self._streams:
                if task_id == self._task_id:
                    stream = self._stream_of(task_id).items_and_gaps(self._place or None)
                else:
                    stream = SubTaskStream(task_id, self._stream_of, nested=True).items(self._places[task_id] or None)
                self._streams[task_id] = stream
            self._reads[task_id] = asyncio.ensure_future(anext(self._streams[task_id]))

    def _awaited(self, item: StreamItem) -> list[str]:
        """Return the open sub-tasks that precede this item of the task."""
        match item.data:
            case ToolResultItem() as returned:
                names = [sub_task_id(self._task_id, returned.part.tool_result.tool_call_id)]
            case StepFinal() | TaskEnded():
                names = list(self._places)
            case _:
                names = []
        return [task_id for task_id in names if task_id in self._places and self._is_open(task_id)]

    async def _abandon_running(self, task_ids: Collection[str]) -> None:
        """Follow those of these sub-tasks no further that have not ended, or were never submitted."""
        for task_id in task_ids:
            if not await self._stream_of(task_id).is_over():
                self._places[task_id] = COMPLETE
                await self._close(task_id)

    async def _close(self, task_id: str) -> None:
        read, stream = self._reads.pop(task_id, None), self._streams.pop(task_id, None)
        if read is not None:
            read.cancel()
            with suppress(asyncio.CancelledError, StopAsyncIteration):
                await read
        if stream is not None:
            await stream.aclose()

    def _moved(self, task_id: str, item: StreamItem) -> StreamItem:
        """Move the place to the item. Return the item with its task and the new cursor."""
        if task_id == self._task_id:
            self._place = item.cursor
            if isinstance(item.data, StepFinal):
                self._open(item.data.step, [])
        else:
            self._places[task_id] = item.cursor
        places = (f"({place})" if "," in place else place for place in self._places.values())
        return replace(item, cursor=",".join([self._place, *places]), task_id=item.task_id or task_id)

    def _open(self, step: TaskStep, places: list[str]) -> None:
        """Follow the sub-tasks of the step, from these places on."""
        calls = [call for call in step.calls if call.tool_name == DELEGATE][: self._most[1]]
        places += [""] * len(calls)
        self._places = {sub_task_id(self._task_id, call.id): place for call, place in zip(calls, places, strict=False)}

    def _is_open(self, task_id: str) -> bool:
        return self._places[task_id] != COMPLETE
