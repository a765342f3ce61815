"""HTTP below the `mcp` package: bounds of size, faults of one request, and what is known about each request.

The package ends the whole session if one request cannot be sent. So a fault becomes an error response of that request.
"""

import json
import re
from collections.abc import AsyncIterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import httpx2
from mcp_types import CONNECTION_CLOSED

from roboco.adapters.mcp.watchdog import MAX_MESSAGE_BYTES, message_in, without_lone_surrogates
from roboco.errors import UsageError

_MAX_ERROR_BYTES, _MAX_PAGE_CHARS = 64 * 1024, 300
_MARKUP = re.compile(r"(?is)<(script|style).*?</\1>|<[^>]*>")
_CLOSE_TIMEOUT = 2.0
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_NOT_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.UnsupportedProtocol, UsageError)
_REFUSALS = frozenset(range(400, 500)) - {408, 425, 429}
"""Statuses with which a server refuses a request before it runs a tool: after some others the tool may still run."""


@dataclass(eq=False)
class Exchange:
    """A request to a server, as it was seen below the package."""

    result: dict[str, Any] = field(default_factory=dict)
    """The result, before the package has checked it."""
    questions: list[dict[str, Any]] = field(default_factory=list)
    """The requests that the server sent meanwhile: `method` and `params`."""
    status: int | None = None
    """The HTTP status, or None without a response."""
    text: str = ""
    """The beginning of the body of an error response."""
    fault: str = ""
    """Why there was no response, or ""."""
    sent: bool = True
    """False if the request certainly did not reach the server."""
    began: bool = False
    """True if the server has reported progress, so the tool has begun to run."""

    @property
    def refused(self) -> bool:
        """Return True if the server has certainly not run the request."""
        return not self.began and (not self.sent or self.status in _REFUSALS)

    @property
    def message(self) -> str:
        """Return the HTTP status for messages, or "" if it is no error."""
        return f" (HTTP status {self.status})" if self.status is not None and self.status >= 300 else ""


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
        try:
            response = await super().send(request, **options)
            if found is not None and request.method == "POST":
                await _record(found, response)
            return response
        except (httpx2.HTTPError, httpx2.StreamError, UsageError) as error:
            if found is None or request.method != "POST":
                raise
            found.sent = not isinstance(error, _NOT_SENT)
            kind = "" if isinstance(error, UsageError) else f"{type(error).__name__}: "
            found.fault = f"{kind}{error}".removesuffix(": ")
            return _error_response(request, found.fault)


async def clean_body(response: httpx2.Response) -> None:
    """Bound the size of the body, and make it one that the package can parse."""
    response.stream = _CleanBody(response)


async def _record(found: Exchange, response: httpx2.Response) -> None:
    found.status = response.status_code
    kind = response.headers.get("content-type", "").lower()
    if response.is_error or kind.startswith("text/plain"):
        text = (await response.aread())[:_MAX_ERROR_BYTES].decode(errors="replace")
        text = _MARKUP.sub(" ", text)[:_MAX_PAGE_CHARS] if "html" in kind else text
        found.text = " ".join(text.split())


def _error_response(request: httpx2.Request, fault: str) -> httpx2.Response:
    error = {"jsonrpc": "2.0", "id": 0, "error": {"code": CONNECTION_CLOSED, "message": fault}}
    content = json.dumps(error).encode()
    return httpx2.Response(502, headers={"content-type": "application/json"}, content=content, request=request)


class _CleanBody(httpx2.AsyncByteStream):
    """A body as lines that the package can parse. Its iteration raises StreamError when it is too large."""

    def __init__(self, response: httpx2.Response) -> None:
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        self._body = response.stream
        packed = response.headers.get("content-encoding", "identity").lower() != "identity"
        streamed = response.headers.get("content-type", "").lower().startswith("text/event-stream")
        self._max_bytes = 0 if packed else MAX_MESSAGE_BYTES
        self._per_line = streamed  # an event has a bound in the package; a long stream of events is no fault

    async def __aiter__(self) -> AsyncIterator[bytes]:
        held: list[bytes] = []
        size = 0
        try:
            async for piece in self._body:
                lines, newline, rest = piece.rpartition(b"\n") if self._per_line else (b"", b"", piece)
                size = (0 if newline else size) + len(piece)
                if size > self._max_bytes:
                    raise httpx2.StreamError(f"the answer is compressed, or has more than {MAX_MESSAGE_BYTES} bytes")
                if newline:
                    for line in b"".join([*held, lines]).split(b"\n"):
                        yield _clean(line) + newline
                    held = []
                held.append(rest)
        except httpx2.HTTPError as error:  # the package ends the session for it
            raise httpx2.StreamError(f"{type(error).__name__}: {error}") from error
        yield _clean(b"".join(held))

    async def aclose(self) -> None:
        await self._body.aclose()


def _clean(line: bytes) -> bytes:
    """Return a body, or a line of a stream of events, in valid UTF-8, with a message that the package can parse."""
    line = without_lone_surrogates(line.removeprefix(_BYTE_ORDER_MARK).decode(errors="replace").encode())
    field, colon, text = line.partition(b":") if line.startswith(b"data:") else (b"", b"", line)
    return field + colon + (message_in(text) or text)
