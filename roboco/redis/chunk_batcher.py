"""Sends the chunks of all turns of a process to a Redis server in batches.

A batch contains the chunks that arrived while Redis answered the previous batch. So a busy process makes few round
trips, and an idle one sends each chunk immediately.
"""

import logging
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from roboco.redis.scripts import ScriptCall, Scripts

_log = logging.getLogger(__name__)

IDLE_TIMEOUT = 5.0
"""Seconds without a call after which the thread ends."""
MAX_BATCH_CALLS = 500
"""Calls of one batch at most, so that one slow answer does not delay all of them."""


@dataclass(frozen=True)
class _Call:
    keys: list[str]
    arguments: list[Any]
    on_answer: Callable[[Any], None]


class ChunkBatcher:
    """Calls one script for many callers, in their order, from one thread, which starts with the first call."""

    def __init__(self, scripts: Scripts, script: str) -> None:
        self._scripts = scripts
        self._script = script
        self._calls: queue.SimpleQueue[_Call] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._running = False

    def send(self, keys: list[str], arguments: list[Any], on_answer: Callable[[Any], None]) -> None:
        """Add a call to the next batch. The batcher's thread calls `on_answer` with the answer, or with the error.

        Raise RuntimeError if there can be no further thread. The call is not made then.
        """
        with self._lock:  # otherwise the thread may end between the check and the put, and leave the call
            if not self._running:
                threading.Thread(target=self._run, name="roboco-chunk-batcher", daemon=True).start()
                self._running = True
            self._calls.put(_Call(keys, arguments, on_answer))

    def _run(self) -> None:
        while batch := self._next_batch():
            self._run_batch(batch)

    def _next_batch(self) -> list[_Call]:
        """Return the next batch, or an empty list if no call has arrived for a while: then the thread ends."""
        try:
            batch = [self._calls.get(timeout=IDLE_TIMEOUT)]
        except queue.Empty:
            with self._lock:
                if self._calls.empty():
                    self._running = False
                    return []
            return self._next_batch()
        while len(batch) < MAX_BATCH_CALLS and not self._calls.empty():
            batch.append(self._calls.get_nowait())
        return batch

    def _run_batch(self, batch: list[_Call]) -> None:
        for call, answer in zip(batch, self._answers_to(batch), strict=True):
            try:
                call.on_answer(answer)
            except Exception:
                _log.exception("the callback for the answer to a chunk failed")

    def _answers_to(self, batch: list[_Call]) -> list[Any]:
        try:
            return self._scripts.run_all([ScriptCall(self._script, call.keys, call.arguments) for call in batch])
        except Exception as error:  # every caller needs an answer
            return [error] * len(batch)
