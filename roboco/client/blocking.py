"""blocking: run the client's coroutines for callers without an event loop, in one loop of the process."""

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Iterator
from contextlib import aclosing
from queue import SimpleQueue
from typing import Any, Final, Generic, TypeVar

from roboco.model.loop_thread import LoopThread

T = TypeVar("T")
MAX_READ_AHEAD: Final = 100
"""Items of an iterator that the loop reads before the caller asks for them."""
_LOOP: Final = LoopThread()


def wait_for(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return the result of the coroutine. If the caller is interrupted, the coroutine is cancelled."""
    running = asyncio.run_coroutine_threadsafe(coroutine, _LOOP.loop())
    try:
        return running.result()
    finally:
        running.cancel()


class ReadAhead(Generic[T]):
    """The items of an iterator, which the loop reads before the caller asks for them."""

    def __init__(self, items: AsyncGenerator[T, None]) -> None:
        self._room = asyncio.Semaphore(MAX_READ_AHEAD)
        self._received = SimpleQueue[tuple[T] | None]()
        self._reading = asyncio.run_coroutine_threadsafe(self._read(items), _LOOP.loop())
        self._reading.add_done_callback(lambda _: self._received.put(None))

    async def _read(self, items: AsyncGenerator[T, None]) -> None:
        async with aclosing(items):
            async for item in items:
                await self._room.acquire()
                self._received.put((item,))

    def next(self, seconds: float | None = None) -> T | None:
        """Return the next item, or None after the last one. Raise Empty if none arrives within these seconds.

        It raises the iterator's own error. A caller that is interrupted meanwhile misses no item.
        """
        found = self.take(seconds)
        return None if found is None else found[0]

    def take(self, seconds: float | None = None) -> tuple[T] | None:
        """Do the same as `next`, with the item in a tuple: it may be None."""
        if (found := self._received.get(timeout=seconds)) is None:
            self._reading.result()
            return None
        _LOOP.loop().call_soon_threadsafe(self._room.release)
        return found

    def close(self) -> None:
        """Close the iterator."""
        self._reading.cancel()


def iterate(items: AsyncGenerator[T, None]) -> Iterator[T]:
    """Yield the items. If the caller ends the iteration, they are closed."""
    reader = ReadAhead(items)
    try:
        while (found := reader.take()) is not None:
            yield found[0]
    finally:
        reader.close()
