"""The transport to an MCP server over streamable HTTP."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import anyio
import httpx2
from mcp.client.streamable_http import MCP_SESSION_ID, streamable_http_client

from roboco.adapters.mcp.streams import MAX_MESSAGE_BYTES, MessageStreams

_NOT_FOUND = 404
_CLOSE_TIMEOUT = 2.0


@dataclass
class HttpState:
    """The HTTP status of the current request, and whether the server does not know its session any more."""

    status: int | None = None
    session_unknown: bool = False

    @property
    def message(self) -> str:
        """Return the status for messages, or "" if it is no error."""
        return f" (HTTP status {self.status})" if self.status is not None and self.status >= 300 else ""


http_state: ContextVar[HttpState | None] = ContextVar("http_state", default=None)
"""The HTTP state of the current request: the package runs each request in the context of its sender."""


@asynccontextmanager
async def http_streams(url: str, headers: dict[str, str], connect: float, read: float) -> AsyncIterator[MessageStreams]:
    """Open a client of the address that sends the headers. It follows redirects only within the address's origin."""
    async with (
        httpx2.AsyncClient(
            headers={**headers, "accept-encoding": "identity"},
            timeout=httpx2.Timeout(connect, read=read),
            event_hooks={"request": [_shorten_close_timeout], "response": [_on_response]},
        ) as client,
        streamable_http_client(url, http_client=client, max_sse_event_size=MAX_MESSAGE_BYTES) as (reads, writes),
    ):
        yield MessageStreams(reads, writes, anyio.Event())


async def _shorten_close_timeout(request: httpx2.Request) -> None:
    """Shorten the timeout of the request that ends a session: it is a courtesy and must not wait as long as a call."""
    if request.method == "DELETE":
        request.extensions["timeout"] = httpx2.Timeout(_CLOSE_TIMEOUT).as_dict()


async def _on_response(response: httpx2.Response) -> None:
    """Record the status, and limit the size of the body."""
    if (state := http_state.get()) is not None and response.request.method == "POST":
        state.status = response.status_code
        known = MCP_SESSION_ID in response.request.headers
        state.session_unknown = known and response.status_code == _NOT_FOUND
    packed = response.headers.get("content-encoding", "identity").lower() != "identity"
    response.stream = _LimitedBody(response.stream, 0 if packed else MAX_MESSAGE_BYTES)


class _LimitedBody(httpx2.AsyncByteStream):
    """A body whose iteration raises StreamError when it is too large."""

    def __init__(self, body: object, max_bytes: int) -> None:
        assert isinstance(body, httpx2.AsyncByteStream)
        self._body = body
        self._bytes_left = max_bytes

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._body:
            self._bytes_left -= len(piece)
            if self._bytes_left < 0:
                raise httpx2.StreamError(f"the answer is compressed, or has more than {MAX_MESSAGE_BYTES} bytes")
            yield piece

    async def aclose(self) -> None:
        await self._body.aclose()
