"""The queue of live messages of one follower in an event loop."""

import asyncio
from collections import deque
from enum import Enum

from roboco.adapters.redis.stream.position import Position, Record

HELD = 256
"""Live messages that wait for a follower at most. A slower follower reads the logs instead."""


class Word(Enum):
    """A control signal to a follower, beside messages."""

    READ_ON = "read the logs from the position on, then continue with live messages"
    QUIET = "no message for a while, and the logs have no more"


class Listener:
    """A queue of live messages, or a signal to read them from the logs. The follower moves `position`."""

    def __init__(self, position: Position) -> None:
        self.position = position
        self.waits_since: float | None = None
        self._live: deque[Record] = deque()
        self._word: Word | None = None
        self._failure: BaseException | None = None
        self._stirred = asyncio.Event()

    @property
    def idle(self) -> bool:
        """True if the follower has received all that was put here."""
        return not self._stirred.is_set()

    async def take(self) -> Record | Word:
        """Wait for the next message or signal, and return it. Raise the error of `fail`, such as TransientError."""
        while True:
            if self._failure is not None:
                raise self._failure
            if self._word is not None:
                word, self._word = self._word, None
                return word
            if self._live:
                return self._live.popleft()
            self._stirred.clear()
            await self._stirred.wait()

    def put(self, record: Record) -> None:
        """Add a live message, unless the follower has to read the logs, which contain it."""
        if self._word is Word.READ_ON:
            return
        if len(self._live) < HELD:
            self._live.append(record)
            self._stirred.set()
        else:
            self.read_on()

    def read_on(self) -> None:
        """Drop the waiting messages, which may have gaps, and signal to read the logs instead."""
        self._live.clear()
        self._word = Word.READ_ON
        self._stirred.set()

    def quiet(self) -> None:
        """Signal that there is no message."""
        if self._word is None:
            self._word = Word.QUIET
            self._stirred.set()

    def fail(self, error: BaseException) -> None:
        """Raise this error in the follower."""
        self._failure = error
        self._stirred.set()
