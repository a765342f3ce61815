"""blocking: run the client's coroutines for callers without an event loop, in one loop of the process."""

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Iterator
from contextlib import aclosing
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeVar, cast

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


def iterate(items: AsyncGenerator[T, None]) -> Iterator[T]:
    """Yield the items. If the caller ends the iteration, they are closed."""
    return cast(Iterator[T], iterate_with_gaps(items, None))


def iterate_with_gaps(items: AsyncGenerator[T, None], seconds: float | None) -> Iterator[T | None]:
    """Do the same as `iterate`, and yield None if no item arrives within these seconds."""
    loop, room = _LOOP.loop(), asyncio.Semaphore(MAX_READ_AHEAD)
    received = SimpleQueue[tuple[T] | None]()

    async def read() -> None:
        async with aclosing(items):
            async for item in items:
                await room.acquire()
                received.put((item,))

    reading = asyncio.run_coroutine_threadsafe(read(), loop)
    reading.add_done_callback(lambda _: received.put(None))
    try:
        while True:
            try:
                found = received.get(timeout=seconds)
            except Empty:
                yield None
                continue
            if found is None:
                break
            loop.call_soon_threadsafe(room.release)
            yield found[0]
        reading.result()
    finally:
        reading.cancel()
