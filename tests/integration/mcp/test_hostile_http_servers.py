"""Web servers that misbehave in the place of an MCP server."""

import gzip
import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

import pytest

from roboco.errors import UsageError
from tests.support.mcp_servers import call, declare_server, listed, open_servers

pytestmark = pytest.mark.slow

INITIALIZED = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "web", "version": "1"}}
Serve = Callable[[BaseHTTPRequestHandler], None]


def send_response(handler: BaseHTTPRequestHandler, status: int, headers: dict[str, str], body: bytes = b"") -> None:
    """Send a response."""
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name, value)
    if "Content-Length" not in headers:
        handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def unauthorized(handler: BaseHTTPRequestHandler) -> None:
    """Refuse the credentials, and repeat them."""
    send_response(handler, 401, {"Content-Type": "text/plain"}, (handler.headers["Authorization"] or "").encode())


def endless(handler: BaseHTTPRequestHandler) -> None:
    """Send a response without end."""
    send_response(handler, 200, {"Content-Type": "application/json", "Content-Length": "1000000000"})
    while True:
        handler.wfile.write(b" " * 65_536)


def bomb(handler: BaseHTTPRequestHandler) -> None:
    """Send a small response that unpacks to 20 MB."""
    packed = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    send_response(handler, 200, packed, gzip.compress(b" " * 20_000_000))


def web_page(handler: BaseHTTPRequestHandler) -> None:
    """Send a web page."""
    send_response(handler, 200, {"Content-Type": "text/html"}, b"<html>")


def mute(handler: BaseHTTPRequestHandler) -> None:
    """Send the head of a response, and no body."""
    send_response(handler, 200, {"Content-Type": "text/event-stream", "Content-Length": "100"})
    time.sleep(3)


def answer_to(body: bytes) -> bytes:
    """Return the response to the first request of a session."""
    return json.dumps({"jsonrpc": "2.0", "id": json.loads(body)["id"], "result": INITIALIZED}).encode()


CLIENT_HAS_CLOSED = threading.Event()


def ignore_calls_and_close(handler: BaseHTTPRequestHandler) -> None:
    """Complete the handshake, and answer neither calls nor the end of the session."""
    body = handler.rfile.read(int(handler.headers["Content-Length"] or 0))
    if b'"initialize"' in body:
        send_response(handler, 200, {"Content-Type": "application/json", "Mcp-Session-Id": "7"}, answer_to(body))
    elif b'"notifications/initialized"' in body:
        send_response(handler, 202, {})
    else:
        assert CLIENT_HAS_CLOSED.wait(60), "the client has closed the session"


@contextmanager
def serving(serve: Serve) -> Iterator[str]:
    """Yield the address of a server that answers each request with this function."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            try:
                serve(self)
            except OSError:
                self.close_connection = True

        do_GET = do_DELETE = do_POST  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/mcp"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.parametrize(
    ("serve", "error"),
    [
        (unauthorized, "HTTP status 401"),
        (endless, "has more than 16777216 bytes"),
        (bomb, "is compressed"),
        (web_page, "no message of the protocol, but text/html"),
        (mute, "did not answer in time"),
    ],
)
def test_a_web_server_without_the_protocol_is_an_error(
    serve: Serve, error: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("WEB_AUTH_HEADER", "Bearer secret-of-the-web")
    with serving(serve) as url, caplog.at_level(logging.DEBUG):
        connect_timeout = 2.0 if serve is mute else 30.0
        server = declare_server(url=url, headers={"Authorization": "WEB_AUTH_HEADER"}, connect_timeout=connect_timeout)
        with open_servers(server) as servers:
            with pytest.raises(UsageError, match=error) as listing:
                listed(servers, server)
            with pytest.raises(UsageError, match=error) as raised:
                call(servers, server, "buy", {})
    assert "secret-of-the-web" not in f"{listing.value} {raised.value} {caplog.text}"


def test_a_redirect_to_another_server_is_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEB_AUTH_HEADER", "Bearer secret-of-the-web")
    requests: list[str] = []
    with serving(lambda handler: requests.append(handler.path)) as other:

        def redirect(handler: BaseHTTPRequestHandler) -> None:
            send_response(handler, 307, {"Location": other})

        with serving(redirect) as url:
            server = declare_server(url=url, headers={"Authorization": "WEB_AUTH_HEADER"})
            with open_servers(server) as servers, pytest.raises(UsageError, match="not followed"):
                call(servers, server, "buy", {})
    assert requests == []


def test_close_does_not_wait_for_the_server() -> None:
    with serving(ignore_calls_and_close) as url:
        server = declare_server(url=url, timeout=0.5)
        with open_servers(server) as servers:
            with pytest.raises(UsageError, match="it did not answer in time"):
                call(servers, server, "buy", {})
            (known,) = servers._connections.values()
            servers.close()
            assert cast(Any, known)._session.running.ended.is_set()
    CLIENT_HAS_CLOSED.set()
