"""Server-sent events: the chunks that a model server streams, read from its response.

The format: https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation. A model sends
one word per event, and hundreds of models stream at the same time. The cost of an event is most of that of a stream.

The openai package's own reader makes an unvalidated object of every chunk: 340 of the 490 microseconds of processor
time that a word costs with it, from the socket to PUBLISH. This one takes 80, over aiohttp, whose parser is not written
in Python.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import suppress
from typing import Any

import openai
from aiohttp import ClientError
from httpx2 import HTTPError, StreamError

from roboco.adapters.model.chat_client import ChatResponse
from roboco.errors import ModelError

MAX_EVENT_BYTES = 5_000_000
"""Bytes of an event, and of a line: little more than a text may have. Parsed as JSON, it may take twenty times that."""
DRAIN_TIMEOUT = 0.1
"""Seconds to wait for the end after the last event: only a connection that was read to its end is reused."""


async def iter_chunks(response: ChatResponse) -> AsyncGenerator[Any]:
    """Yield the JSON of each event until "[DONE]".

    Raise openai.APIError if the connection breaks or the server sends an error, ModelError if an event is too long, and
    ValueError if its data is not JSON.
    """
    pieces = response.aiter_bytes()
    parser = EventParser()
    try:
        async for piece in pieces:
            for data in parser.feed(piece):
                if data.startswith(b"[DONE]"):
                    await _drain(pieces)
                    return
                chunk = json.loads(data.decode(errors="replace"))
                _raise_error(chunk, response)
                yield chunk
    except (HTTPError, ClientError) as error:
        raise openai.APIConnectionError(request=response.request) from error


class EventParser:
    """Extracts the data of events from a stream of bytes; names, ids and comments of events are ignored."""

    def __init__(self) -> None:
        self._partial_line = bytearray()
        self._data: list[bytes] = []  # of an event that has not ended
        self._data_size = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the data of each event that ends in these bytes. Raise ModelError if an event or a line is too long."""
        _check_size(len(self._partial_line) + len(data))
        if not (b"\n" in data or b"\r" in data or self._partial_line.endswith(b"\r")):
            self._partial_line += data
            return
        text = bytes(self._partial_line) + data
        # A final "\r" may be the first half of "\r\n": its line ends with the next bytes.
        pending = b"\r" if text.endswith(b"\r") else b""
        lines = text.removesuffix(pending).splitlines(keepends=True)
        complete = not lines or lines[-1].endswith((b"\n", b"\r"))
        self._partial_line = bytearray(pending if complete else lines.pop() + pending)
        for line in lines:
            yield from self._add_line(line.rstrip(b"\r\n"))

    def _add_line(self, line: bytes) -> Iterator[bytes]:
        """Add the line to the event. If it is empty, the event has ended: yield its data."""
        if line.startswith(b"data:"):
            self._data_size += len(line)
            _check_size(self._data_size)
            self._data.append(line[5:].removeprefix(b" "))
        elif not line and self._data:
            data, self._data, self._data_size = self._data, [], 0
            yield b"\n".join(data)


def _check_size(size: int) -> None:
    if size > MAX_EVENT_BYTES:
        raise ModelError("too_long", f"the model server sent an event of more than {MAX_EVENT_BYTES} bytes", False)


async def _drain(pieces: AsyncIterator[bytes]) -> None:
    with suppress(TimeoutError, HTTPError, StreamError, ClientError):
        async with asyncio.timeout(DRAIN_TIMEOUT):
            async for _ in pieces:
                pass


def _raise_error(chunk: Any, response: ChatResponse) -> None:
    """Raise openai.APIError if the chunk contains an error instead of a part of the reply."""
    error = chunk.get("error") if isinstance(chunk, dict) else None
    if not error:
        return
    message = error.get("message") if isinstance(error, dict) else None
    text = message if isinstance(message, str) and message else "an error occurred during streaming"
    raise openai.APIError(text, response.request, body=error)
