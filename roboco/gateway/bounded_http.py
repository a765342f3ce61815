"""bounded_http: HTTP/1.1 of uvicorn on httptools, with bounds on what a client sends before and after a body.

    connection ─► MAX_HEAD_SECONDS ─► no head: aborted
    head, trailers ─► more than MAX_HEAD bytes: 431 or closed          body ─► bounded where it is read

httptools keeps the path, the headers and the trailers of a request until all have arrived, whatever their size. A
client without a key could so fill the memory. Trailers follow a body in chunks. uvicorn takes them for headers, which a
proxy in front has not seen, so they are dropped. The system ends the connections of clients that do not read: see
`server.listen`.
"""

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD: Final = 65_536
"""Bytes of a request's path and headers, or of its trailers. One piece of the network more may arrive before."""
MAX_HEAD_SECONDS: Final = 60.0
"""Seconds from the connection, or from the begin of a request, until its head is complete."""
_TOO_LARGE: Final = b"HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class BoundedHttpProtocol(HttpToolsProtocol):
    """One connection."""

    # More names in the dictionary of a connection would exceed those that CPython shares: 1 KB more for each one.
    __slots__ = ("_head_timer", "_unread")

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._unread = 0
        """The bytes since a head, a piece of a body or a request was complete."""
        self._head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Wait for the first request."""
        super().connection_made(transport)
        self._await_head()

    def data_received(self, data: bytes) -> None:
        """Parse the bytes, and close the connection if a head or trailers are too long."""
        self._unread += len(data)
        super().data_received(data)
        if self._unread > MAX_HEAD and not self.transport.is_closing():
            cycle: Any = self.cycle  # None before the first request, although uvicorn declares otherwise
            if cycle is None or cycle.response_complete:  # else the bytes would be part of its response
                self.transport.write(_TOO_LARGE)
            self.transport.close()

    def on_message_begin(self) -> None:
        """Wait for the head."""
        self._await_head()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Begin the request. Its trailers are kept apart from its headers.

        What follows a request to change the protocol is no request, whatever a proxy takes it for: close then.
        """
        self._unread = 0
        self._end_head_timer()
        super().on_headers_complete()
        self.headers = []
        if self.parser.should_upgrade():
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        """Reset the count: the limit of the body applies."""
        self._unread = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Reset the count for the next request."""
        self._unread = 0
        super().on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no further."""
        self._end_head_timer()
        super().connection_lost(exc)

    def _await_head(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(MAX_HEAD_SECONDS, self.transport.abort)

    def _end_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
