"""OpenStreams: the open streams of a process, and the one task that pings and ends them.

    every quarter of a ping ─► each stream: silent? ─► ping    too old? ─► end    ended, and its reader hangs? ─► abort
    gateway.closing ─────────► each stream: end

A silent stream costs no timer, and an item of a stream sets none. The task runs while a stream is open.
"""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import Context
from typing import Final, Protocol

from roboco.gateway.streams.ending import StreamEnd

MAX_CHECK_INTERVAL: Final = 1.0
"""Seconds between two checks of all streams, at most."""


class OpenStream(Protocol):
    """A stream, for the task that checks it."""

    def check(self, now: float) -> None:
        """Send a ping, end the stream or abort it, if one of these is due at this time of the monotonic clock."""

    def end(self, reason: StreamEnd) -> None:
        """End the stream after its last whole frame."""


PING_SECONDS: Final = 15.0
"""Seconds of silence after which a stream sends a comment, so that proxies keep it."""


class OpenStreams:
    """The open streams of a gateway. `closing` is set when the process is about to exit."""

    def __init__(self, ping_seconds: float, stream_seconds: float, closing: asyncio.Event) -> None:
        self.ping_seconds = ping_seconds
        self.stream_seconds = stream_seconds
        self._closing = closing
        self._interval = min(MAX_CHECK_INTERVAL, ping_seconds / 4, stream_seconds / 4)
        self._streams: set[OpenStream] = set()
        self._checks: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._streams)

    @contextmanager
    def watched(self, stream: OpenStream) -> Iterator[None]:
        """Check the stream until the block ends."""
        self._streams.add(stream)
        if self._checks is None or self._checks.done():
            self._checks = asyncio.create_task(self._check(), name="roboco gateway streams", context=Context())
        try:
            yield
        finally:
            self._streams.discard(stream)

    async def _check(self) -> None:
        while self._streams:
            if self._closing.is_set():
                for stream in tuple(self._streams):
                    stream.end(StreamEnd.CLOSING)
                await asyncio.sleep(self._interval)
            else:
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._interval):
                        await self._closing.wait()
            now = time.monotonic()
            for stream in tuple(self._streams):
                stream.check(now)
