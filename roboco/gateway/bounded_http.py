"""bounded_http: HTTP/1.1 of uvicorn on httptools, with bounds on what a client sends and leaves unread.

    connection ─► MAX_HEAD_SECONDS ─► no head: aborted
    head ─► counted ─► too long: 431, closed     body ─► bounded where it is read     trailers ─► counted, dropped
                                                                                       └─► too long: closed

httptools keeps the path, the headers and the trailers of a request until all have arrived, whatever their size. A
client without a key could so fill the memory. Trailers follow a body in chunks. uvicorn takes them for headers, which a
proxy in front has not seen, so they are dropped.

    response ─► more than the system buffers ─► each MAX_UNREAD seconds: has the client read? ─► no: aborted

A connection that is closed lasts until its client has read the rest. So a client that reads nothing could keep
connections of responses and streams that have ended long ago.
"""

import asyncio
import sys
from fcntl import ioctl
from termios import TIOCOUTQ
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD: Final = 65_536
"""Bytes of a request's path and headers, or of its trailers. One piece of the network more may arrive before."""
MAX_HEAD_SECONDS: Final = 60.0
"""Seconds from the connection, or from the begin of a request, until its head is complete."""
MAX_UNREAD: Final = 120.0
"""Seconds in which a client has to read MIN_READ bytes, while more than that waits for it."""
MIN_READ: Final = 65_536
_TOO_LARGE: Final = b"HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class BoundedHttpProtocol(HttpToolsProtocol):
    """One connection."""

    # More names in the dictionary of a connection would exceed those that CPython shares: 1 KB more for each one.
    __slots__ = ("_head_timer", "_in_head", "_read_body", "_reader_check", "_unread")

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._unread: int | None = None
        """The bytes since the begin of the head, or since the last piece of the body; None between requests."""
        self._in_head = False
        self._read_body = False
        """Whether the last bytes had a piece of the body: most of them are that, then."""
        self._reader_check: asyncio.TimerHandle | None = None
        self._head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Wait for the first request."""
        super().connection_made(transport)
        self._start_head_timer()

    def data_received(self, data: bytes) -> None:
        """Parse the bytes, and close the connection if they make a head too long, or trailers."""
        self._read_body = False
        super().data_received(data)
        if self._unread is not None and not self._read_body:
            self._unread += len(data)
            if self._unread > MAX_HEAD and not self.transport.is_closing():
                self._refuse()

    def _refuse(self) -> None:
        """Close the connection, with 431 unless the bytes would be part of the response to an earlier request."""
        earlier: Any = self.cycle  # None before the first request, although uvicorn declares otherwise
        if self._in_head and (earlier is None or earlier.response_complete):
            self.transport.write(_TOO_LARGE)
        self.transport.close()

    def on_message_begin(self) -> None:
        """Begin to count."""
        self._unread, self._in_head = 0, True
        self._start_head_timer()
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header, and drop a trailer."""
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Begin to count anew: the limit of the body applies now.

        What follows a request to change the protocol is no request, whatever a proxy takes it for: close then.
        """
        self._unread, self._in_head = 0, False
        self._end_head_timer()
        super().on_headers_complete()
        if self.parser.should_upgrade():
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        """Begin to count anew with the next bytes: they may be trailers."""
        self._unread, self._read_body = 0, True
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Stop counting."""
        self._unread = None
        super().on_message_complete()

    def pause_writing(self) -> None:
        """Stop the application, and begin to check that the client reads."""
        super().pause_writing()
        self._check_later()

    def resume_writing(self) -> None:
        """Let the application go on: the client has read."""
        self._end_checks()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Check no further."""
        self._end_checks()
        self._end_head_timer()
        super().connection_lost(exc)

    def _start_head_timer(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(MAX_HEAD_SECONDS, self.transport.abort)

    def _end_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _check_later(self) -> None:
        self._end_checks()
        self._reader_check = self.loop.call_later(MAX_UNREAD, self._check_reader, self._unread_bytes())

    def _check_reader(self, unread_before: int) -> None:
        """Abort the connection unless its client has read enough since the last check."""
        if self._unread_bytes() > unread_before - MIN_READ:
            self.transport.abort()
        else:
            self._check_later()

    def _unread_bytes(self) -> int:
        """Return the bytes that wait here and in the system, whose buffer is refilled in large pieces."""
        try:
            waiting = ioctl(self.transport.get_extra_info("socket").fileno(), TIOCOUTQ, bytes(4))
        except OSError:
            waiting = b""  # this system does not know
        return self.transport.get_write_buffer_size() + int.from_bytes(waiting, sys.byteorder)

    def _end_checks(self) -> None:
        if self._reader_check is not None:
            self._reader_check.cancel()
            self._reader_check = None
