"""LoopCall: a coroutine on the loop thread, for whose result another thread waits."""

import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, wait
from typing import Any, Generic, TypeVar

from roboco.adapters.model.loop_thread import LoopThread
from roboco.errors import UsageError

T = TypeVar("T")
_POLL_INTERVAL = 0.05
"""Seconds between checks for a cancellation of the wait."""


class LoopCall(Generic[T]):
    """A coroutine that starts at construction. The loop runs it, so it ends by itself or by `result`."""

    def __init__(self, loop: LoopThread, make_coroutine: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._future: Future[T] = Future()
        self._running = loop.submit(self._run(make_coroutine))

    def result(self, until: float, cancelled: Callable[[], bool]) -> T:
        """Return the result; cancel the coroutine if it is not available.

        Raise TimeoutError at `until` (of `time.monotonic`), and UsageError if `cancelled` returns True.
        """
        try:
            return wait_result(self._future, until, cancelled)
        finally:
            if not self._future.done():
                self._running.cancel()

    async def _run(self, make_coroutine: Callable[[], Coroutine[Any, Any, T]]) -> None:
        try:
            self._future.set_result(await make_coroutine())
        except Exception as error:
            self._future.set_exception(error)


def wait_result(future: "Future[T]", until: float, cancelled: Callable[[], bool]) -> T:
    """Return the future's result.

    Raise TimeoutError at `until` (of `time.monotonic`), and UsageError if `cancelled` returns True.
    """
    while not future.done():
        left = until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        if cancelled():
            raise UsageError("the call was cancelled")
        wait([future], min(left, _POLL_INTERVAL))
    return future.result()


def never_cancelled() -> bool:
    """Return False. For calls that cannot be cancelled."""
    return False
