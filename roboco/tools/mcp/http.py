"""HTTP below the `mcp` package: bounds of size, faults of one request, and what is known about each request.

The package ends the whole session if one request cannot be sent, and loses a response with another id, another type of
content or another name of its event. So each response is read here, and the package gets one that it can read.
"""

import math
import re
from collections.abc import AsyncIterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import httpx2
from mcp_types import CONNECTION_CLOSED, INTERNAL_ERROR

from roboco.errors import UsageError
from roboco.tools.mcp.watchdog import MAX_MESSAGE_BYTES, line_of, messages_in

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
        if b'"method"' not in request.content:  # an answer to the server, whose fate is not that of the request
            found = Exchange(found.id)
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
    """Bound the size of the body, and make a stream of events one that the package can parse."""
    response.stream = _Events(response) if _is_stream(response) else _Body(response)


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


class _Body(httpx2.AsyncByteStream):
    """A body of bounded size. Its iteration raises StreamError when it is too large."""

    def __init__(self, response: httpx2.Response) -> None:
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        self._body, self._request = response.stream, response.request
        packed = response.headers.get("content-encoding", "identity").lower() != "identity"
        # an event has a bound; a long stream of them is no fault
        self._max_bytes = 0 if packed else math.inf if _is_stream(response) else MAX_MESSAGE_BYTES

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        try:
            async for piece in self._body:
                size += len(piece)
                if size > self._max_bytes:
                    raise httpx2.StreamError(f"the answer is compressed, or has more than {MAX_MESSAGE_BYTES} bytes")
                yield piece
        except httpx2.HTTPError as error:  # the package ends the session for it
            raise httpx2.StreamError(f"{type(error).__name__}: {error}") from error
        yield b"\n\n"  # the end of the last event

    async def aclose(self) -> None:
        await self._body.aclose()


class _Events(_Body):
    """A stream of events, of which each has one message."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        kind = {"content-type": "text/event-stream"}
        stream = httpx2.Response(200, headers=kind, content=super().__aiter__(), request=self._request)
        async for event in httpx2.EventSource(stream, MAX_MESSAGE_BYTES):
            about = f"id: {event.id}\n".encode() if event.id else b""
            about += b"" if event.retry is None else f"retry: {event.retry}\n".encode()
            for message in messages_in(event.data.encode()):
                yield about + b"data: " + line_of(message) + b"\n"
                about = b""
            yield about + b"data:\n\n" if about else b""
