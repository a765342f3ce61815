"""LoopThread: an asyncio loop per process, in a dedicated thread, such as the one that runs all model streams."""

import asyncio
import os
import threading
from collections.abc import Coroutine
from typing import Any


class LoopTask:
    """A coroutine that the loop runs. `ended` is set when it has finished, also if it was cancelled."""

    def __init__(self, loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, None]) -> None:
        self.ended = threading.Event()
        self._loop = loop
        self._task: asyncio.Task[None] | None = None
        loop.call_soon_threadsafe(self._start, coroutine)

    def cancel(self) -> None:
        """Cancel the coroutine. Any thread may call this; the loop acts on it shortly after."""
        self._loop.call_soon_threadsafe(self._cancel)

    def _start(self, coroutine: Coroutine[Any, Any, None]) -> None:
        self._task = self._loop.create_task(coroutine)
        self._task.add_done_callback(lambda _: self.ended.set())

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()


class LoopThread:
    """Runs coroutines for other threads. A forked process gets a new loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pid = 0

    def submit(self, coroutine: Coroutine[Any, Any, None]) -> "LoopTask":
        """Start the coroutine."""
        return LoopTask(self.loop(), coroutine)

    def loop(self) -> asyncio.AbstractEventLoop:
        """Return the loop of this process, which runs."""
        with self._lock:
            if self._loop is None or self._pid != os.getpid():
                self._loop = asyncio.new_event_loop()
                self._pid = os.getpid()
                threading.Thread(target=self._loop.run_forever, name="roboco-streams", daemon=True).start()
            return self._loop
