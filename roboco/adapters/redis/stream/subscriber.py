"""Listener: what one follower in an event loop has yet to take."""

import asyncio
from collections import deque
from enum import Enum

from roboco.adapters.redis.stream.position import Position, Record

HELD = 256
"""How many live messages are held for a follower; one that is slower than that reads on from the logs."""


class Word(Enum):
    """What a follower is told beside messages."""

    READ_ON = "read the logs from your position on, and then go on live"
    QUIET = "nothing has come for a while, and the logs hold nothing more"


class Listener:
    """Live messages, or word that they must be read from the logs. `position` is moved by the follower."""

    def __init__(self, position: Position) -> None:
        self.position = position
        self.waits_since: float | None = None
        self._live: deque[Record] = deque()
        self._word: Word | None = None
        self._failure: BaseException | None = None
        self._stirred = asyncio.Event()

    @property
    def idle(self) -> bool:
        """Whether its follower has taken all there was."""
        return not self._stirred.is_set()

    async def take(self) -> Record | Word:
        """The next message or word, as soon as there is one; TransientError if Redis has not answered for too long."""
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
        """A live message; of no use to who has to read the logs, where it stands."""
        if self._word is Word.READ_ON:
            return
        if len(self._live) < HELD:
            self._live.append(record)
            self._stirred.set()
        else:
            self.read_on()

    def read_on(self) -> None:
        """What is held may lack something: have the logs read instead."""
        self._live.clear()
        self._word = Word.READ_ON
        self._stirred.set()

    def quiet(self) -> None:
        """Say that there is nothing."""
        if self._word is None:
            self._word = Word.QUIET
            self._stirred.set()

    def fail(self, error: BaseException) -> None:
        """End the following with this error."""
        self._failure = error
        self._stirred.set()
