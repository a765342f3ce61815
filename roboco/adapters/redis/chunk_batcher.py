"""Emitter: sends the chunks of all turns of a process, as many at once as came while Redis was answering."""

import logging
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from roboco.adapters.redis.scripts import Scripts

_log = logging.getLogger(__name__)

IDLE = 5.0
"""Seconds after which a thread ends that has nothing to send."""
MOST = 500
"""Calls that are sent in one go at most, so that one slow answer does not hold back all."""


@dataclass(frozen=True)
class _Call:
    keys: list[str]
    arguments: list[Any]
    answered: Callable[[Any], None]


class Emitter:
    """Calls one script for many callers, in their order, from one thread, which begins with the first call."""

    def __init__(self, scripts: Scripts, script: str) -> None:
        self._scripts = scripts
        self._script = script
        self._calls: queue.SimpleQueue[_Call] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._running = False

    def send(self, keys: list[str], arguments: list[Any], answered: Callable[[Any], None]) -> None:
        """Call the script soon; `answered` is told the answer, or what failed, from the emitter's thread."""
        self._calls.put(_Call(keys, arguments, answered))
        with self._lock:  # else the thread may end in between, and nobody would take the call
            if not self._running:
                self._running = True
                threading.Thread(target=self._run, name="roboco-emitter", daemon=True).start()

    def _run(self) -> None:
        while batch := self._next():
            self._call(batch)

    def _next(self) -> list[_Call]:
        """What waits, at least one call; nothing if none has come for a while, and the thread is to end."""
        try:
            batch = [self._calls.get(timeout=IDLE)]
        except queue.Empty:
            with self._lock:
                if self._calls.empty():
                    self._running = False
                    return []
            return self._next()
        while len(batch) < MOST and not self._calls.empty():
            batch.append(self._calls.get_nowait())
        return batch

    def _call(self, batch: list[_Call]) -> None:
        for call, answer in zip(batch, self._answers(batch), strict=True):
            try:
                call.answered(answer)
            except Exception:
                _log.exception("what became of a chunk could not be told")

    def _answers(self, batch: list[_Call]) -> list[Any]:
        try:
            return self._scripts.run_all(self._script, [(call.keys, call.arguments) for call in batch])
        except Exception as error:  # whoever waits for an answer has to get one
            return [error] * len(batch)
