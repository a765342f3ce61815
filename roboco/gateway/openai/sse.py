"""sse: send server-sent events to OpenAI's clients.

    frames ─► client        silence ─► ping        client gone ─► the task goes on
    frames end whole ─► the response ends
    frames break, or the process exits ─► the connection is closed within the response

These clients take the end of a response for the end of the answer, also in mid-sentence. So a response that is not
whole must never end in the regular way: without its last chunk, the client raises an error after the text that it
has.

While a client does not read, no further frame is made, and the server holds pieces of the last one: see
`bodies/sent_parts.py`. A stream holds that frame, and its translator the answer so far, which is in the last frame.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, aclosing, suppress
from typing import Any, Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from roboco.gateway.bodies.sent_parts import send_part

_log = logging.getLogger(__name__)

HEADERS: Final = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-store, no-transform",
    "x-accel-buffering": "no",
}
_OPEN: Final = b": open\n\n"
"""The first bytes: proxies and clients see at once that the stream has begun."""
_PING: Final = b": ping\n\n"

OnDisconnect = Callable[[], Awaitable[None]]


class EventStream(Response):
    """A response of frames. It is cut when `closing` is set.

    `held` is closed at its end: it holds one of the caller's streams. `on_disconnect` is called if the client goes
    before the last frame. `ping_seconds` is the silence before a ping.
    """

    def __init__(
        self,
        frames: AsyncGenerator[bytes, None],
        closing: asyncio.Event,
        ping_seconds: float,
        held: AsyncExitStack,
        on_disconnect: OnDisconnect | None = None,
    ) -> None:
        super().__init__(None, headers=dict(HEADERS))
        del self.headers["content-length"]
        self._closing = closing
        self._ping_seconds = ping_seconds
        self._frames = frames
        self._held = held
        self._on_disconnect = on_disconnect

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the frames. Return without the last message of the response if they are not whole."""
        async with self._held:
            await self._serve(receive, send)

    async def _serve(self, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        await send_part(send, _OPEN)
        gone = asyncio.ensure_future(_disconnected(receive))
        closing = asyncio.ensure_future(self._closing.wait())
        try:
            async with aclosing(self._frames):
                whole = await self._send_frames(send, gone, closing)
        finally:
            gone.cancel()
            closing.cancel()
        if whole:
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        elif gone.done() and self._on_disconnect is not None:
            await self._on_disconnect()

    async def _send_frames(self, send: Send, gone: "asyncio.Future[None]", closing: "asyncio.Future[Any]") -> bool:
        """Send each frame. Return True if the last one was sent."""
        following = asyncio.ensure_future(anext(self._frames, None))
        try:
            while True:
                waits: set[asyncio.Future[Any]] = {following, gone, closing}
                await asyncio.wait(waits, timeout=self._ping_seconds, return_when=asyncio.FIRST_COMPLETED)
                if gone.done() or closing.done():
                    return False
                if not following.done():
                    await send_part(send, _PING)
                    continue
                frame = following.result()
                if frame is None:
                    return True
                await send_part(send, frame)
                frame = b""  # a silent stream does not hold it
                following = asyncio.ensure_future(anext(self._frames, None))
        except Exception as error:  # any fault of the stream: the client must not take its text for the whole
            _log.warning("a stream was cut: %s", error)
            return False
        finally:
            following.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await following


async def _disconnected(receive: Receive) -> None:
    """Return when the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        continue
