"""Web servers that misbehave where an MCP server is expected."""

import gzip
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

import pytest

from roboco.errors import UsageError
from tests.support.mcp_servers import declare_server, never, open_servers

pytestmark = pytest.mark.slow

INITIALIZED = b"""{"jsonrpc": "2.0", "id": 1, "result": {"protocolVersion": "2025-06-18", "capabilities": {},
"serverInfo": {"name": "web", "version": "1"}}}"""
Serve = Callable[[BaseHTTPRequestHandler], None]


def say(handler: BaseHTTPRequestHandler, status: int, headers: dict[str, str], body: bytes = b"") -> None:
    """A response."""
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name, value)
    if "Content-Length" not in headers:
        handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def unauthorized(handler: BaseHTTPRequestHandler) -> None:
    """Wants something else, and repeats what it got."""
    say(handler, 401, {"Content-Type": "text/plain"}, (handler.headers["Authorization"] or "").encode())


def endless(handler: BaseHTTPRequestHandler) -> None:
    """Never comes to an end."""
    say(handler, 200, {"Content-Type": "application/json", "Content-Length": "1000000000"})
    while True:
        handler.wfile.write(b" " * 65_536)


def bomb(handler: BaseHTTPRequestHandler) -> None:
    """Is small, and unpacks to 20 MB."""
    packed = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    say(handler, 200, packed, gzip.compress(b" " * 20_000_000))


def web_page(handler: BaseHTTPRequestHandler) -> None:
    """Is no MCP server at all."""
    say(handler, 200, {"Content-Type": "text/html"}, b"<html>")


def mute(handler: BaseHTTPRequestHandler) -> None:
    """Begins an answer and leaves it at that."""
    say(handler, 200, {"Content-Type": "text/event-stream", "Content-Length": "100"})
    time.sleep(3)


ENDED = threading.Event()


def slow_farewell(handler: BaseHTTPRequestHandler) -> None:
    """Greets, and then answers neither calls nor the farewell."""
    body = handler.rfile.read(int(handler.headers["Content-Length"] or 0))
    if b'"initialize"' in body:
        say(handler, 200, {"Content-Type": "application/json", "Mcp-Session-Id": "7"}, INITIALIZED)
    elif b'"notifications/initialized"' in body:
        say(handler, 202, {})
    else:
        assert ENDED.wait(60), "the client waits for the answer"


@contextmanager
def serving(serve: Serve) -> Iterator[str]:
    """The address of a server that answers everything in this way."""

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
    ("serve", "told"),
    [
        (unauthorized, "HTTP status 401"),
        (endless, "has more than 16777216 bytes"),
        (bomb, "is compressed"),
        (web_page, "Unexpected content type: text/html"),
        (mute, "did not answer in time"),
    ],
)
def test_what_is_no_mcp_server(
    serve: Serve, told: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("WEB_AUTH_HEADER", "Bearer secret-of-the-web")
    with serving(serve) as url, caplog.at_level(logging.DEBUG):
        patience = 2.0 if serve is mute else 30.0
        server = declare_server(url=url, headers={"Authorization": "WEB_AUTH_HEADER"}, connect_timeout=patience)
        with open_servers(server) as servers:
            assert told in servers.tools(server)["buy"].description
            with pytest.raises(UsageError, match=told) as raised:
                servers.call(server, "buy", {}, "k", never)
    assert "secret-of-the-web" not in str(raised.value) + caplog.text


def test_a_redirect_to_another_server_is_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEB_AUTH_HEADER", "Bearer secret-of-the-web")
    heard: list[str] = []
    with serving(lambda handler: heard.append(handler.path)) as other:

        def redirect(handler: BaseHTTPRequestHandler) -> None:
            say(handler, 307, {"Location": other})

        with serving(redirect) as url:
            server = declare_server(url=url, headers={"Authorization": "WEB_AUTH_HEADER"})
            with open_servers(server) as servers, pytest.raises(UsageError, match="not followed"):
                servers.call(server, "buy", {}, "k", never)
    assert heard == []


def test_a_farewell_does_not_take_long() -> None:
    with serving(slow_farewell) as url:
        server = declare_server(url=url, timeout=0.5)
        with open_servers(server) as servers:
            with pytest.raises(UsageError, match="it did not answer in time"):
                servers.call(server, "buy", {}, "k", never)
            (known,) = servers._states.values()
            servers.close()
            assert known.session is not None
            assert cast(Any, known.session)._running.ended.is_set()
    ENDED.set()
