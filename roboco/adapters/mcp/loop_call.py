"""Work: what the loop does for a thread that waits for it."""

import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, wait
from typing import Any, Generic, TypeVar

from roboco.adapters.model.loop_thread import LoopThread
from roboco.errors import UsageError

T = TypeVar("T")
_LOOK = 0.05
"""Seconds between looks whether the wait was cancelled."""


class Work(Generic[T]):
    """Begun with its construction; it is the loop that runs it, so it ends by itself or by `result`."""

    def __init__(self, loop: LoopThread, work: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._done: Future[T] = Future()
        self._running = loop.submit(self._do(work))

    def result(self, until: float, cancelled: Callable[[], bool]) -> T:
        """What came of it; otherwise it is given up: TimeoutError at `until` (monotonic), UsageError if cancelled."""
        try:
            return awaited(self._done, until, cancelled)
        finally:
            if not self._done.done():
                self._running.cancel()

    async def _do(self, work: Callable[[], Coroutine[Any, Any, T]]) -> None:
        try:
            self._done.set_result(await work())
        except Exception as error:
            self._done.set_exception(error)


def awaited(future: "Future[T]", until: float, cancelled: Callable[[], bool]) -> T:
    """The future's result; TimeoutError at `until` (monotonic), UsageError if cancelled."""
    while not future.done():
        left = until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        if cancelled():
            raise UsageError("the call was cancelled")
        wait([future], min(left, _LOOK))
    return future.result()


def never() -> bool:
    """For work that nobody cancels."""
    return False
