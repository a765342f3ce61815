"""Server-sent events: the chunks that a model server streams, read from the bytes of its response.

The format: https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation. A model sends
one word per event, and hundreds of models stream at the same time. The cost of an event is most of that of a stream.

Servers send other things where a stream was asked for: a whole reply as JSON, chunks as lines of JSON, a sign-in page,
an error in a field `error`, compressed bytes, a byte order mark. All of these are read, or quoted in the error.
"""

import json
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import suppress
from typing import Any

from roboco.errors import ModelError
from roboco.model.errors import ServerFailure

MAX_EVENT_BYTES = 5_000_000
"""Bytes of an event, of a line, and of a body that is no stream: little more than a text may have."""
MAX_REPLY_BYTES = 256 * 1024 * 1024
"""Bytes of a reply with all that surrounds its text, after decompression."""
UNREADABLE = "unreadable"
"""The code of a reply that is no JSON, or no reply."""
_PIECE_BYTES = 65_536
_QUOTED_BYTES = 300
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_FIELDS = (b"data:", b"error:")
_decode = json.JSONDecoder(strict=False).decode  # some servers do not escape tabs


async def iter_chunks(pieces: AsyncIterator[bytes], encoding: str = "") -> AsyncGenerator[Any]:
    """Yield the JSON of each event, or of the whole body if that is no stream; "[DONE]" as None.

    Raise ModelError if an event or the body is too long or no JSON, or if the body is neither a stream nor JSON.
    """
    parser = EventParser()
    async for piece in unpacked(pieces, encoding):
        for data in parser.feed(piece):
            for value in _values(data):
                yield value
    for data in parser.end():
        for value in _values(data):
            yield value


async def unpacked(pieces: AsyncIterator[bytes], encoding: str) -> AsyncIterator[bytes]:
    """Yield the bytes of a body, decompressed if its server has compressed it all the same, in bounded pieces."""
    if encoding in ("", "identity"):
        async for piece in pieces:
            yield piece
        return
    if encoding not in ("gzip", "x-gzip", "deflate"):
        message = f"the model server compresses its reply with {encoding[:40]!r}, which was not asked for"
        raise ModelError(UNREADABLE, message, False)
    unpacker = zlib.decompressobj(47)
    async for piece in pieces:
        while piece:
            try:
                data = unpacker.decompress(piece, _PIECE_BYTES)
            except zlib.error as error:
                raise ModelError(
                    UNREADABLE, f"the model server's compressed reply is damaged: {error}", False
                ) from error
            piece = unpacker.unconsumed_tail
            yield data
    yield unpacker.flush(_PIECE_BYTES)


def _values(data: bytes) -> list[Any]:
    """Return the chunks of an event: one, a list of them, or one in each line if a server leaves out blank lines."""
    if data.startswith(b"[DONE]"):
        return [None]
    if data.strip() in (b"", b"null"):  # both keep a connection alive
        return []
    try:
        value = parse_json(data)
        is_list = isinstance(value, list) and value and isinstance(value[0], dict) and "choices" in value[0]
        return value if is_list else [value]
    except ModelError:
        lines = [line.strip().removeprefix(b"data:").strip() for line in data.splitlines()]
        with suppress(ModelError):
            return [None if line == b"[DONE]" else parse_json(line) for line in lines if line]
        raise


def parse_json(data: bytes) -> Any:
    """Return the value. Raise ModelError, which quotes the data, if it is no JSON."""
    try:
        return _decode(data.decode(errors="replace"))
    except (ValueError, RecursionError) as error:
        quoted = data[:_QUOTED_BYTES].decode(errors="replace")
        raise ModelError(UNREADABLE, f"it sent what is no JSON: {quoted!r}", False) from error


class EventParser:
    """Extracts the data of events from a stream of bytes; names, ids and comments of events are ignored."""

    def __init__(self) -> None:
        self._partial_line = bytearray()
        self._data: list[bytes] = []  # of an event that has not ended
        self._data_size = 0
        self._head: bytearray | None = bytearray()  # the first bytes, until it is known what the body is
        self._body: bytearray | None = None  # the rest of the body, if it is no stream of events
        self._size = 0
        self._comments = b""  # the beginning of what is neither data nor a comment
        self._has_data = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the data of each event that ends in these bytes. Raise ModelError if one, or the body, is too long."""
        self._size += len(data)
        _check_size("a reply", self._size, MAX_REPLY_BYTES)
        if self._head is not None:
            data = self._after_head(data)
        if self._body is not None:
            _check_size("an event", len(self._body) + len(data), MAX_EVENT_BYTES)
            self._body += data
            return
        _check_size("an event", len(self._partial_line) + len(data), MAX_EVENT_BYTES)
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
            if (event := self._add_line(line.rstrip(b"\r\n"))) is not None:
                yield event

    def end(self) -> Iterator[bytes]:
        """Yield the data that is left when the body has ended: of a last event without its end, or of a JSON body.

        Raise ServerFailure, which quotes the body, if it has no data at all.
        """
        if self._body is not None:
            if self._body.startswith(b"<"):
                raise ServerFailure.within_stream(self._body.decode(errors="replace"))
            if self._body.strip():
                yield bytes(self._body)
            return
        for rest in (bytes(self._head or self._partial_line).rstrip(b"\r\n"), b""):
            if (event := self._add_line(rest)) is not None:
                yield event
        if not self._has_data and self._comments:
            raise ServerFailure.within_stream(self._comments.decode(errors="replace"))

    def _after_head(self, data: bytes) -> bytes:
        """Return what follows the byte order mark and white space at the beginning, and recognise a body."""
        assert self._head is not None
        self._head += data
        head = bytes(self._head)
        if len(head) < 3 and _BYTE_ORDER_MARK.startswith(head):
            return b""
        head = head.removeprefix(_BYTE_ORDER_MARK)
        begin = head.lstrip(b" \t\r\n")
        if not begin:
            self._head = bytearray()  # white space that keeps the connection alive
            return b""
        self._head = None
        if begin[:1] in (b"{", b"[", b"<"):
            self._body = bytearray()
        return begin

    def _add_line(self, line: bytes) -> bytes | None:
        """Add the line to the event. If it is empty, the event has ended: return its data."""
        if not line:
            if self._data:
                data, self._data, self._data_size = self._data, [], 0
                return data[0] if len(data) == 1 else b"\n".join(data)
        elif line.startswith(_FIELDS):
            self._data_size += len(line)
            _check_size("an event", self._data_size, MAX_EVENT_BYTES)
            self._has_data = True
            self._data.append(line.partition(b":")[2].removeprefix(b" "))
        elif not self._has_data and not line.startswith((b":", b"event:", b"id:", b"retry:")):
            self._comments = (self._comments + line + b"\n")[:2000]
        return None


def _check_size(part: str, size: int, limit: int) -> None:
    if size > limit:
        raise ModelError("too_long", f"the model server sent {part} of more than {limit} bytes", False)
