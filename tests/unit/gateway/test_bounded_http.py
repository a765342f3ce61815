"""The bounds of a connection, over a transport in memory."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from roboco.gateway import bounded_http, server
from roboco.gateway.bounded_http import MAX_HEAD, BoundedHttpProtocol

CHUNKED = b"POST / HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n\r\n"
TRAILER = b"X-Trailer: " + b"a" * 1000 + b"\r\n"
PIECE = 8192
LARGE = 4_000_000
PIECES = 4
REQUEST = b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"


class _Transport(asyncio.Transport):
    """A connection whose client reads everything."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1), "sockname": ("127.0.0.1", 2)})
        self.sent = b""
        self.closed = False
        self.aborted = asyncio.Event()

    def abort(self) -> None:
        self.aborted.set()

    def write(self, data: Any) -> None:
        self.sent += data

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


class _Connection:
    """A connection to an application that reads the body, and remembers the headers that it sees then."""

    def __init__(self) -> None:
        self.headers: list[bytes] = []
        config = uvicorn.Config(self._app, interface="asgi3", lifespan="off", ws="none", log_config=None)
        config.load()
        self.protocol = BoundedHttpProtocol(config, ServerState(), {})
        self.transport = _Transport()
        self.protocol.connection_made(self.transport)

    async def _app(self, scope: Any, receive: Any, send: Any) -> None:
        more = True
        while more:
            message = await receive()
            more = message.get("more_body", False)
        self.headers = [name for name, _ in scope["headers"]]
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def send(self, data: bytes) -> None:
        """Send the bytes in pieces, as a network does, until the connection is closed."""
        for start in range(0, len(data), PIECE):
            if self.transport.closed:
                return
            self.protocol.data_received(data[start : start + PIECE])
            await asyncio.sleep(0)


def _sent(*pieces: bytes) -> _Connection:
    """Return the connection after these bytes."""

    async def send() -> _Connection:
        connection = _Connection()
        for piece in pieces:
            await connection.send(piece)
            await asyncio.sleep(0.01)
        return connection

    return asyncio.run(send())


def test_nothing_that_follows_an_upgrade_is_a_request() -> None:
    upgrade = b"GET / HTTP/1.1\r\nHost: here\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    connection = _sent(upgrade + REQUEST, REQUEST)
    assert connection.transport.sent.count(b"HTTP/1.1") == 1
    assert connection.transport.closed


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost:"])
def test_a_connection_without_a_request_ends(sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_http, "MAX_HEAD_SECONDS", 0.01)

    async def wait(data: bytes) -> bool:
        connection = _Connection()
        await connection.send(data)
        with suppress(TimeoutError):
            await asyncio.wait_for(connection.transport.aborted.wait(), 0.2)
        return connection.transport.aborted.is_set()

    assert asyncio.run(wait(sent))
    assert not asyncio.run(wait(REQUEST))


def test_trailers_are_no_headers() -> None:
    connection = _sent(CHUNKED + b"2\r\nhi\r\n0\r\nX-API-Key: forged\r\nHost: evil\r\n\r\n")
    assert connection.transport.sent.startswith(b"HTTP/1.1 204")
    assert connection.headers == [b"host", b"transfer-encoding"]


@pytest.mark.parametrize("trailers", [TRAILER * 1000, b"X-Trailer: " + b"a" * 1_000_000], ids=["many", "one"])
def test_endless_trailers_close_the_connection(trailers: bytes) -> None:
    connection = _sent(CHUNKED + b"2\r\nhi\r\n0\r\n" + trailers)
    assert connection.transport.closed
    assert b" 204" not in connection.transport.sent


def test_an_endless_head_gets_431() -> None:
    connection = _sent(b"GET / HTTP/1.1\r\nHost: " + b"a" * 2 * MAX_HEAD)
    assert connection.transport.sent.startswith(b"HTTP/1.1 431")
    assert connection.transport.closed


def test_a_long_body_in_small_chunks_is_no_head() -> None:
    whole = CHUNKED + b"2\r\nhi\r\n" * 20_000 + b"0\r\n\r\n"
    connection = _sent(whole, b"GET / HTTP/1.1\r\nHost: here\r\n\r\n")
    assert not connection.transport.closed
    assert connection.transport.sent.count(b"HTTP/1.1 204") == 2


def test_a_large_piece_of_a_body_is_no_trailer() -> None:
    """A fast network delivers up to 256 KB at once."""

    async def send() -> _Connection:
        connection, size = _Connection(), 4 * MAX_HEAD
        connection.protocol.data_received(b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: %d\r\n\r\n" % (2 * size))
        for _ in range(2):
            connection.protocol.data_received(b"x" * size)
            await asyncio.sleep(0.01)
        return connection

    connection = asyncio.run(send())
    assert not connection.transport.closed
    assert connection.transport.sent.startswith(b"HTTP/1.1 204")


@pytest.mark.parametrize("closes", [False, True], ids=["application waits", "application has left"])
def test_a_client_that_reads_nothing_loses_its_connection(closes: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MAX_UNREAD_SECONDS", 0.1)

    async def main() -> None:
        async with _serving(closes) as (state, port):
            with socket.socket() as client:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                client.connect(("127.0.0.1", port))
                client.send(REQUEST)
                while not state.connections:
                    await asyncio.sleep(0.01)
                while state.connections:
                    await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(main(), 60))


def test_a_client_that_reads_slowly_gets_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MAX_UNREAD_SECONDS", 1.5)

    async def main() -> None:
        async with _serving(False) as (_, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(REQUEST)
            received = 0
            while data := await reader.read(PIECES * LARGE // 60):
                received += len(data)
                await asyncio.sleep(0.05)
            assert received > PIECES * LARGE
            writer.close()

    asyncio.run(asyncio.wait_for(main(), 120))


@asynccontextmanager
async def _serving(closes: bool) -> AsyncIterator[tuple[ServerState, int]]:
    """Serve a large response on a port of this machine. If it `closes`, the application leaves it unfinished."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"connection", b"close")]})
        for _ in range(1 if closes else PIECES):
            await send({"type": "http.response.body", "body": bytes(LARGE), "more_body": True})
        if not closes:
            await send({"type": "http.response.body", "body": b""})

    config = uvicorn.Config(app, interface="asgi3", lifespan="off", ws="none", log_config=None)
    config.load()
    state = ServerState()
    loop = asyncio.get_running_loop()
    listening = server.listen("127.0.0.1", 0)
    serving = await loop.create_server(lambda: BoundedHttpProtocol(config, state, {}), sock=listening)
    try:
        yield state, listening.getsockname()[1]
    finally:
        serving.close()
