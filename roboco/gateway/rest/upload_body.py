"""UploadBody: the body of a request as a file that a thread reads.

    client ─► server ─► event loop: one piece, when the thread asks for it ─► thread: read(n) ─► store

The thread pulls, so that the event loop holds one piece at most, and the client is slowed down to the speed of the
store. The thread waits for a limited time only: a client that sends nothing for MAX_SILENCE, or less than MIN_SPEED for
longer, fails the upload. A client that disconnects, and a body that is too long, fail it too. Then the store drops all.
"""

import asyncio
import io
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Final

from starlette.requests import ClientDisconnect, Request

from roboco.gateway.access import announced_bytes
from roboco.gateway.problem import Problem

MAX_SILENCE: Final = 30.0
"""Seconds without a byte after which an upload fails."""
MIN_SPEED: Final = 4096
"""Bytes in a second below which an upload fails, after MAX_SILENCE: it occupies a thread."""


class UploadBody(io.RawIOBase):
    """The body of a request. `read` blocks; it must run in a thread, and never in that of the event loop."""

    def __init__(
        self, pieces: AsyncIterator[bytes], max_bytes: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__()
        self._pieces = pieces
        self._loop = asyncio.get_running_loop()
        self._max_bytes = max_bytes
        self._clock = clock
        self._started = clock()
        self._held = bytearray()
        self._received = 0
        self._ended = False

    def readable(self) -> bool:
        """Return True."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Return `size` bytes, fewer only at the end; without a size, all. Raise Problem if the client fails."""
        while not self._ended and not 0 <= size <= len(self._held):
            self._receive()
        end = len(self._held) if size < 0 else size
        data = bytes(self._held[:end])
        del self._held[:end]
        return data

    def _receive(self) -> None:
        """Add the next piece of the body."""
        piece = self._next_piece()
        if piece is None:
            self._ended = True
            return
        self._received += len(piece)
        if self._received > self._max_bytes:
            raise _too_large(self._max_bytes)
        waited = self._clock() - self._started
        if waited > MAX_SILENCE and self._received < MIN_SPEED * waited:
            raise _too_slow(f"its client sends less than {MIN_SPEED} bytes in a second")
        self._held += piece

    def _next_piece(self) -> bytes | None:
        asked = asyncio.run_coroutine_threadsafe(self._pull(), self._loop)
        try:
            return asked.result(MAX_SILENCE)
        except FutureTimeout:
            asked.cancel()
            raise _too_slow(f"its client has sent nothing for {MAX_SILENCE:g} s") from None
        except ClientDisconnect:
            raise Problem(400, "invalid", "the upload ended before its body was complete", "upload it again") from None

    async def _pull(self) -> bytes | None:
        async for piece in self._pieces:
            if piece:
                return piece
        return None


def uploaded_body(request: Request, max_bytes: int) -> UploadBody:
    """Return the body of a request. Raise Problem if it says that it is too long."""
    if announced_bytes(request.scope) > max_bytes:
        raise _too_large(max_bytes)
    return UploadBody(request.stream(), max_bytes)


def _too_large(max_bytes: int) -> Problem:
    return Problem(
        413,
        "too_large",
        f"a file may have {max_bytes} bytes at most (ROBOCO_GATEWAY_MAX_UPLOAD)",
        "split the file, or ask the operator for a higher limit",
    )


def _too_slow(reason: str) -> Problem:
    return Problem(408, "too_slow", f"the upload is given up: {reason}", "upload the file again")
