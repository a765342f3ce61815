"""Threads for blocking calls of event loops."""

import asyncio
import os
import threading
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


class ThreadPool:
    """A pool of at most `max_threads` threads for all event loops of a process. A forked process gets a new pool."""

    def __init__(self, max_threads: int, name: str = "roboco-reader") -> None:
        self._max_threads = max_threads
        self._name = name
        self._lock = threading.Lock()
        self._pools: dict[int, ThreadPoolExecutor] = {}
        self._shared_calls: dict[tuple[asyncio.AbstractEventLoop, Hashable], asyncio.Task[Any]] = {}

    async def run(self, call: Callable[[], T]) -> T:
        """Run the call in a thread and return its result. If the caller is cancelled, the result is dropped."""
        return await asyncio.get_running_loop().run_in_executor(self._pool(), call)

    async def run_shared(self, name: Hashable, call: Callable[[], T]) -> T:
        """Return the result of a call that starts after this request. Concurrent requests of one name share a call."""
        asker = asyncio.get_running_loop(), name
        if (too_early := self._shared_calls.get(asker)) is not None:
            await asyncio.wait([too_early])
        asked = self._shared_calls.get(asker)
        if asked is None:
            asked = self._shared_calls[asker] = asyncio.create_task(self.run(call))
            asked.add_done_callback(lambda done: self._forget(asker, done))
        answer: T = await asyncio.shield(asked)
        return answer

    def _forget(self, asker: tuple[asyncio.AbstractEventLoop, Hashable], done: asyncio.Task[Any]) -> None:
        self._shared_calls.pop(asker, None)
        if not done.cancelled():
            done.exception()  # marks the exception as retrieved, even if all callers have gone

    def _pool(self) -> ThreadPoolExecutor:
        with self._lock:
            process = os.getpid()
            if process not in self._pools:
                self._pools = {process: ThreadPoolExecutor(self._max_threads, thread_name_prefix=self._name)}
            return self._pools[process]
