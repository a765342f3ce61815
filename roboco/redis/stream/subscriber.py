"""The queue of live messages of one follower in an event loop."""

import asyncio
from enum import Enum

from roboco.redis.stream.position import Record, StreamPosition

MAX_QUEUED = 256
"""Live messages that wait for a follower at most. A slower follower reads the logs instead."""


class ControlSignal(Enum):
    """A control signal to a follower, beside messages."""

    CATCH_UP = "read the logs from the position on, then continue with live messages"
    NO_MESSAGES = "no message for a while, and the logs have no more"


class Subscriber:
    """A queue of live messages, or a signal to read them from the logs. The follower moves `position`."""

    def __init__(self, position: StreamPosition) -> None:
        self.position = position
        self.disconnected_since: float | None = None
        self._queue: list[Record] = []  # nearly always empty, and then ten times smaller than a deque
        self._control: ControlSignal | None = None
        self._failure: BaseException | None = None
        self._wake: asyncio.Future[None] | None = None

    @property
    def is_waiting(self) -> bool:
        """True if the follower has received all that was put here."""
        return self._wake is None or not self._wake.done()

    async def receive(self) -> Record | ControlSignal:
        """Wait for the next message or signal, and return it. Raise the error of `fail`, such as TransientError."""
        while True:
            if self._failure is not None:
                raise self._failure
            if self._control is not None:
                word, self._control = self._control, None
                return word
            if self._queue:
                return self._queue.pop(0)
            self._wake = asyncio.get_running_loop().create_future()
            await self._wake

    def put(self, record: Record) -> None:
        """Add a live message, unless the follower has to read the logs, which contain it."""
        if self._control is ControlSignal.CATCH_UP:
            return
        if len(self._queue) < MAX_QUEUED:
            self._queue.append(record)
            self._notify()
        else:
            self.catch_up()

    def catch_up(self) -> None:
        """Drop the waiting messages, which may have gaps, and signal to read the logs instead."""
        self._queue.clear()
        self._control = ControlSignal.CATCH_UP
        self._notify()

    def signal_idle(self) -> None:
        """Signal that there is no message."""
        if self._control is None:
            self._control = ControlSignal.NO_MESSAGES
            self._notify()

    def fail(self, error: BaseException) -> None:
        """Raise this error in the follower."""
        self._failure = error
        self._notify()

    def _notify(self) -> None:
        """Wake the follower, if it waits."""
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)
