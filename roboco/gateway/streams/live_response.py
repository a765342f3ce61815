"""LiveResponse: the response of a stream. One task writes it, and a small one waits for the client's disconnect.

    source.items() ─► frame ─► send (waits while the client does not read) ─► ... ─► last frame ─► end of the body

    every quarter of a ping ─► OpenStreams ─► each stream: check(): silent? ping    too old? end()
    disconnect, greatest age, exit of the process ─► end(): interrupts the wait for an item, never a frame
    a client that reads nothing after that ─► the connection is aborted
    error of the source ─► last frame with code and remedy
    process killed ─► no last frame: the client resumes after its last one, in any gateway process

Everything that a stream holds is bounded: while the client does not read, no item is taken from the source, whose
followers fall back to the log of the task. A large frame is sent in pieces.
"""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, aclosing, contextmanager, suppress
from contextvars import Context, ContextVar
from typing import Any, Final, Generic

from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from roboco.gateway.bodies.body_budget import pieces_of
from roboco.gateway.problem import Problem
from roboco.gateway.streams.ending import Ending, StreamEnd, failed
from roboco.gateway.streams.form import Source, Streamed

HANDOVER: Final = "roboco.stream"
"""The field of an ASGI scope with the list that a stream enters."""


class StreamHandover:
    """The innermost middleware: it serves a stream after its route has returned, so that no memory of it is held.

    LiveResponse enters itself. Other responses pass unchanged.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve an ASGI request."""
        streams: list[Callable[[Receive, Send], Awaitable[None]]] = []
        scope[HANDOVER] = streams
        await self._app(scope, receive, send)
        for name in [name for name in scope if name.startswith("fastapi")]:
            del scope[name]
        if streams:
            await streams.pop()(receive, send)


# uvicorn closes the connection of a response that is not complete, and logs an error, since it takes that for a mistake
# of the application. Here it is none, so this process drops that one message.
_MISTAKE: Final = "ASGI callable returned without completing response."
_aborted: ContextVar[bool] = ContextVar("roboco_aborted", default=False)


class _AbortedResponses(logging.Filter):
    """Drops the message about a response that was aborted by `abort_quietly`."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not (record.msg == _MISTAKE and _aborted.get())


_FILTER: Final = _AbortedResponses()


def abort_quietly() -> None:
    """Mark the response of the running task as aborted. The application returns next, without more of the body."""
    logging.getLogger("uvicorn.error").addFilter(_FILTER)  # a filter that is there already is not added again
    _aborted.set(True)


MAX_CHECK_INTERVAL: Final = 1.0
"""Seconds between two checks of all streams, at most."""
PING_SECONDS: Final = 15.0
"""Seconds of silence after which a stream sends a comment, so that proxies keep it."""


class OpenStreams:
    """The open streams of a process, and the one task that pings and ends them: a silent stream costs no timer.

    `closing` is set when the process is about to exit.
    """

    def __init__(self, ping_seconds: float, stream_seconds: float, closing: asyncio.Event) -> None:
        self.ping_seconds = ping_seconds
        self.stream_seconds = stream_seconds
        self._closing = closing
        self._interval = min(MAX_CHECK_INTERVAL, ping_seconds / 4, stream_seconds / 4)
        self._streams: set[LiveResponse[Any]] = set()
        self._checks: asyncio.Task[None] | None = None

    @contextmanager
    def watched(self, stream: "LiveResponse[Any]") -> Iterator[None]:
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


OnDisconnect = Callable[[], Awaitable[None]]
HEADERS: Final = {"Cache-Control": "no-store, no-transform", "X-Accel-Buffering": "no"}
"""Headers of every stream: no cache keeps it, and no proxy compresses or collects it."""
MAX_UNREAD_SECONDS: Final = 1.0
"""Seconds after its end in which a stream's client has to read, before the connection is aborted."""


class LiveResponse(Response, Generic[Streamed]):
    """The response of one stream. `slot` has been entered, and is left at its end.

    `greatest_age` is that of `streams` unless it is given. `on_disconnect` is called if the client goes before the end.
    """

    def __init__(
        self,
        source: Source[Streamed],
        streams: OpenStreams,
        slot: AbstractAsyncContextManager[object],
        greatest_age: float | None = None,
        on_disconnect: OnDisconnect | None = None,
    ) -> None:
        self.status_code = 200
        self.media_type = source.form.media_type
        self.background = None
        self.init_headers(HEADERS)
        self._source = source
        self._streams = streams
        self._slot = slot
        self._greatest_age = streams.stream_seconds if greatest_age is None else greatest_age
        self._on_disconnect = on_disconnect
        self._ending: Ending | None = None
        self._waits = False
        self._ping: asyncio.Task[None] | None = None
        self._interrupted = False
        self._ended_at = 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response, here or once the route has returned."""
        if HANDOVER in scope:
            scope[HANDOVER].append(self.serve)
        else:
            await self.serve(receive, send)

    async def serve(self, receive: Receive, send: Send) -> None:
        """Send the response."""
        self._send = send
        writer = asyncio.current_task()
        assert writer is not None
        self._writer = writer
        self._cancelling = writer.cancelling()
        self._written = time.monotonic()
        # Streams that open together end at different times.
        self._end_at = self._written + self._greatest_age * random.uniform(0.9, 1.0)  # noqa: S311
        listener = asyncio.create_task(self._await_disconnect(receive))
        try:
            with self._streams.watched(self):
                await self._stream()
            if self._on_disconnect and self._ending and self._ending.reason is StreamEnd.DISCONNECT:
                await self._on_disconnect()
        finally:
            listener.cancel()
            if self._ping is not None:
                self._ping.cancel()
            await self._slot.__aexit__(None, None, None)

    def end(self, reason: StreamEnd) -> None:
        """End the stream after its last whole frame."""
        self._end_with(Ending(reason))

    def _end_with(self, ending: Ending) -> None:
        if self._ending is None:
            self._ending, self._ended_at = ending, time.monotonic()
            if self._waits:
                self._interrupt()

    def check(self, now: float) -> None:
        """Send a ping, end the stream or abort it, if one of these is due."""
        if self._ending is not None:
            if not self._interrupted and now - self._ended_at > MAX_UNREAD_SECONDS:
                self._interrupt()
        elif now >= self._end_at:
            self.end(StreamEnd.LIFETIME)
        elif self._waits and self._ping is None and now - self._written >= self._streams.ping_seconds:
            self._ping = asyncio.create_task(self._send_ping())

    async def _stream(self) -> None:
        """Send all frames. If the client has gone or reads nothing, leave the body without its end."""
        try:
            await self._send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            await self._send({"type": "http.response.body", "body": self._source.form.opening(), "more_body": True})
            ending = self._ending or await self._write_items()
            if ending.reason is StreamEnd.DISCONNECT:
                return
            await self._write_end(ending)
        except asyncio.CancelledError:
            if not self._was_interrupted():
                raise
            abort_quietly()

    async def _write_end(self, ending: Ending) -> None:
        """Send the last frame, and the end of the body unless its client may take the body for the whole stream."""
        if self._ping is not None:
            await asyncio.wait([self._ping])
        last = self._source.form.end(self._source.last_place(ending), ending)
        whole = ending.final or self._source.form.resumes_by_itself
        await self._send({"type": "http.response.body", "body": last, "more_body": not whole})
        if not whole:
            abort_quietly()

    async def _write_items(self) -> Ending:
        """Write the frames of all items, and return the ending."""
        try:
            async with aclosing(self._source.items()) as items:
                self._waits = True
                async for item in items:
                    self._waits = False
                    if item is not None and (frame := self._source.frame(item)):
                        await self._send_frame(frame)
                    item, frame = None, b""  # a silent stream holds neither
                    if self._ending is not None:
                        break
                    self._waits = True
        except asyncio.CancelledError:
            if not self._waits or not self._was_interrupted():
                raise
            self._interrupted = False
        except Exception as error:
            self._ending = self._ending or failed(error)
        finally:
            self._waits = False
        self._ended_at = time.monotonic()
        self._ending = self._ending or Ending(StreamEnd.TASK_END)
        return self._ending

    async def _send_frame(self, frame: bytes) -> None:
        if self._ping is not None:
            await asyncio.wait([self._ping])  # it waits for the client, as the frame would
        for piece in pieces_of(frame, goes_on=True):
            await self._send(piece)
        self._written = time.monotonic()

    async def _send_ping(self) -> None:
        """Send a ping while the writer waits for an item. A frame that arrives meanwhile waits for the ping."""
        try:
            ping: dict[str, Any] = {"body": self._source.form.ping(self._source.take_unsent_place()), "more_body": True}
            await self._send({"type": "http.response.body", **ping})
            self._written = time.monotonic()
        except Problem as problem:  # the caller's key has ended
            self._end_with(failed(problem))
        finally:
            self._ping = None

    async def _await_disconnect(self, receive: Receive) -> None:
        """End the stream once its client has gone, or sends a body that is longer than it may be."""
        with suppress(HTTPException):
            while (await receive())["type"] != "http.disconnect":
                pass
        self.end(StreamEnd.DISCONNECT)

    def _interrupt(self) -> None:
        """Cancel the wait of the writer. Nothing else may cancel it for this reason."""
        self._interrupted = True
        self._writer.cancel()

    def _was_interrupted(self) -> bool:
        """Return True if only this stream has cancelled its writer, and take that back."""
        return self._interrupted and self._writer.uncancel() <= self._cancelling
