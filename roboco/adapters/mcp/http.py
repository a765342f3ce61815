"""HTTP below the `mcp` package: bounds of size, faults of one request, and what is known about each request.

The package ends the whole session if one request cannot be sent, and loses a response with another id, another type of
content or another name of its event. So each response is read here, and the package gets one that it can read.
"""

import re
from collections.abc import AsyncIterator, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import httpx2
from mcp_types import CONNECTION_CLOSED, INTERNAL_ERROR

from roboco.adapters.mcp.watchdog import MAX_MESSAGE_BYTES, line_of, messages_in
from roboco.errors import UsageError

_MAX_ERROR_BYTES, _MAX_PAGE_CHARS = 64 * 1024, 300
_MARKUP = re.compile(r"(?is)<(script|style).*?</\1>|<[^>]*>")
_CLOSE_TIMEOUT = 2.0
_ACCEPTED = 202
_NOT_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.UnsupportedProtocol, UsageError)
_REFUSALS = frozenset(range(400, 500)) - {408, 425, 429}
"""Statuses with which a server refuses a request before it runs a tool: after some others the tool may still run."""


@dataclass(eq=False)
class Exchange:
    """A request to a server, as it was seen below the package."""

    id: int = 0
    """The id of the request."""
    result: dict[str, Any] = field(default_factory=dict)
    """The result, before the package has checked it."""
    questions: list[dict[str, Any]] = field(default_factory=list)
    """The requests that the server sent meanwhile: `method` and `params`."""
    status: int | None = None
    """The HTTP status, or None without a response."""
    fault: str = ""
    """Why there was no response, or ""."""
    refused: bool = False
    """True if the server has certainly not run the request."""
    began: bool = False
    """True if the server has accepted the request or reported progress, so the tool may have begun to run."""


exchange: ContextVar[Exchange | None] = ContextVar("exchange", default=None)
"""The request of this context: the package sends each request in the context of its caller."""


class BoundedClient(httpx2.AsyncClient):
    """A client that accepts bounded responses, and answers a failed request of a session with an error response."""

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send the request. `exchange` records its fate if it has a message."""
        if request.method == "DELETE":  # the end of a session is a courtesy, and must not wait as long as a call
            request.extensions["timeout"] = httpx2.Timeout(_CLOSE_TIMEOUT).as_dict()
        request.headers["accept-encoding"] = "identity"
        found = exchange.get()
        if found is None or request.method != "POST":
            return await super().send(request, **options)
        try:
            response = await super().send(request, **options)
            found.status, found.refused = response.status_code, response.status_code in _REFUSALS
            return response if _is_stream(response) else await _readable(response, found)
        except (httpx2.HTTPError, httpx2.StreamError, UsageError) as error:
            found.refused = isinstance(error, _NOT_SENT)
            kind = "" if isinstance(error, UsageError) else f"{type(error).__name__}: "
            found.fault = f"{kind}{error}".removesuffix(": ")
            failed = httpx2.Response(502, request=request)
            return _response(failed, {"error": {"code": CONNECTION_CLOSED, "message": found.fault}}, found)


async def clean_body(response: httpx2.Response) -> None:
    """Bound the size of the body, and make it one that the package can parse."""
    response.stream = _CleanBody(response)


def _is_stream(response: httpx2.Response) -> bool:
    return response.headers.get("content-type", "").lower().startswith("text/event-stream") and response.is_success


async def _readable(response: httpx2.Response, found: Exchange) -> httpx2.Response:
    """Return a response with the message in the body, or with an error that has the text of the body."""
    body = await response.aread()
    if response.is_redirect or response.status_code == _ACCEPTED:
        found.began = response.status_code == _ACCEPTED
        return response
    for message in messages_in(body):
        if "method" not in message:
            return _response(response, message, found)
    text = body[:_MAX_ERROR_BYTES].decode(errors="replace")
    text = _MARKUP.sub(" ", text)[:_MAX_PAGE_CHARS] if text.lstrip().startswith("<") else text
    text = " ".join(text.split())
    if response.is_success:
        text = f"its answer is no message of the protocol, but {response.headers.get('content-type', '')}: {text}"
    return _response(response, {"error": {"code": INTERNAL_ERROR, "message": text}}, found)


def _response(response: httpx2.Response, message: dict[str, Any], found: Exchange) -> httpx2.Response:
    headers = {name: value for name, value in response.headers.items() if not name.startswith("content-")}
    content = line_of(message | {"jsonrpc": "2.0", "id": found.id})
    headers |= {"content-type": "application/json"}
    return httpx2.Response(response.status_code, headers=headers, content=content, request=response.request)


class _CleanBody(httpx2.AsyncByteStream):
    """A body that the package can parse. Its iteration raises StreamError when it is too large."""

    def __init__(self, response: httpx2.Response) -> None:
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        self._body = response.stream
        packed = response.headers.get("content-encoding", "identity").lower() != "identity"
        self._max_bytes = 0 if packed else MAX_MESSAGE_BYTES
        self._is_stream = _is_stream(response)
        self._line, self._held = bytearray(), list[bytes]()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        try:
            async for piece in self._body:
                size += len(piece)
                if size > self._max_bytes:
                    raise httpx2.StreamError(f"the answer is compressed, or has more than {MAX_MESSAGE_BYTES} bytes")
                for text in self._completed(piece):
                    yield text
                size = size if self._held or not self._is_stream else len(self._line)
        except httpx2.HTTPError as error:  # the package ends the session for it
            raise httpx2.StreamError(f"{type(error).__name__}: {error}") from error
        for text in self._completed(b"\n\n" if self._is_stream else b""):
            yield text

    def _completed(self, piece: bytes) -> Iterator[bytes]:
        """Yield the events that the piece of a stream completes, or the piece of another body."""
        if not self._is_stream:
            yield piece
            return
        first, *lines = piece.split(b"\n")
        self._line += first
        for following in lines:
            self._held.append(bytes(self._line).rstrip(b"\r"))
            self._line = bytearray(following)
            if not self._held[-1]:
                yield from _events(self._held)
                self._held = []

    async def aclose(self) -> None:
        await self._body.aclose()


def _events(lines: list[bytes]) -> Iterator[bytes]:
    """Yield the messages in an event, each as an event, and what the event says of resumption."""
    data = b"\n".join(line.partition(b":")[2] for line in lines if line.startswith(b"data:"))
    kept = b"".join(line + b"\n" for line in lines if line.startswith((b"id:", b"retry:")))
    for message in messages_in(data):
        yield kept + b"data: " + line_of(message) + b"\n"
        kept = b""
    if kept:
        yield kept + b"data:\n\n"
