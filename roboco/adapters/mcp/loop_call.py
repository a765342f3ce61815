"""LoopCall: a coroutine on the loop thread, for whose result another thread waits."""

import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, wait
from typing import Any, Generic, TypeVar

from roboco.adapters.model.loop_thread import LoopThread
from roboco.errors import UsageError

T = TypeVar("T")
_LOOK = 0.05
"""Seconds between checks for a cancellation of the wait."""


class Work(Generic[T]):
    """A coroutine that starts at construction. The loop runs it, so it ends by itself or by `result`."""

    def __init__(self, loop: LoopThread, work: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._done: Future[T] = Future()
        self._running = loop.submit(self._do(work))

    def result(self, until: float, cancelled: Callable[[], bool]) -> T:
        """Return the result; cancel the coroutine if it is not available.

        Raise TimeoutError at `until` (of `time.monotonic`), and UsageError if `cancelled` returns True.
        """
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
    """Return the future's result.

    Raise TimeoutError at `until` (of `time.monotonic`), and UsageError if `cancelled` returns True.
    """
    while not future.done():
        left = until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        if cancelled():
            raise UsageError("the call was cancelled")
        wait([future], min(left, _LOOK))
    return future.result()


def never() -> bool:
    """Return False. For calls that cannot be cancelled."""
    return False
