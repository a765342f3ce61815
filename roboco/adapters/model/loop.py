"""LoopThread: one asyncio loop per process, in a thread of its own, that runs all model streams."""

import asyncio
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any


class LoopThread:
    """Runs coroutines for other threads. A process that was forked gets a loop of its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pid = 0

    def submit(self, work: Coroutine[Any, Any, None]) -> "Future[None]":
        """Begin the work; cancelling the future cancels it."""
        return asyncio.run_coroutine_threadsafe(work, self._running())

    def call(self, function: Any, *args: Any) -> None:
        """Have the loop call the function soon; nothing happens if there is no loop any more."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(function, *args)

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None or self._pid != os.getpid():
                self._loop = asyncio.new_event_loop()
                self._pid = os.getpid()
                threading.Thread(target=self._loop.run_forever, name="roboco-streams", daemon=True).start()
            return self._loop
