"""An HTTP exchange ends in time, whatever the server sends: one byte now and then, or bytes without end."""

import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from socketserver import StreamRequestHandler, ThreadingTCPServer

import pytest

from roboco.http.http_exchange import HttpAnswer, exchange

HEAD = b"HTTP/1.1 200 OK\r\n"


class Server(ThreadingTCPServer):
    """A server that answers with `begin`, and then with `again` without end, each after `pause` seconds."""

    begin, again, pause = b"", b"", 0.0

    @property
    def url(self) -> str:
        """The address."""
        return f"http://127.0.0.1:{self.server_address[1]}/"


class _Handler(StreamRequestHandler):
    server: Server

    def handle(self) -> None:
        while self.rfile.readline().strip():
            pass
        with suppress(ConnectionError):
            self.wfile.write(self.server.begin)
            while self.server.again:
                self.wfile.write(self.server.again)
                time.sleep(self.server.pause)


@pytest.fixture
def server() -> Iterator[Server]:
    """Yield a server."""
    with Server(("127.0.0.1", 0), _Handler) as started:
        thread = threading.Thread(target=started.serve_forever, args=(0.01,))
        thread.start()
        yield started
        started.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("begin", "again"),
    [
        (HEAD, b"a: b\r\n"),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (HEAD + b"\r\n", b"x"),
        (b"HTTP/1.1 500 No\r\n\r\n", b"x"),
    ],
)
def test_an_answer_in_small_pieces_ends_in_time(server: Server, begin: bytes, again: bytes) -> None:
    server.begin, server.again, server.pause = begin, again, 0.1
    with pytest.raises(TimeoutError):
        exchange("GET", server.url, {}, 0.7, 1000)


@pytest.mark.parametrize("status", [b"200 OK", b"500 No"])
def test_an_answer_without_end_is_not_read_to_its_end(server: Server, status: bytes) -> None:
    server.begin, server.again = b"HTTP/1.1 " + status + b"\r\n\r\n", b"x" * 10_000
    with pytest.raises(ValueError, match="more than 100,000 bytes"):
        exchange("POST", server.url, {}, 60, 100_000, b"{}")


def test_a_redirection_is_returned(server: Server) -> None:
    server.begin = b"HTTP/1.1 307 Moved\r\nLocation: /x\r\nContent-Length: 2\r\n\r\nno"
    assert exchange("GET", server.url, {}, 60, 100) == HttpAnswer(307, b"no")
