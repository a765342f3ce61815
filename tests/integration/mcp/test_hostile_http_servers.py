"""Web servers that misbehave in the place of an MCP server."""

import gzip
import json
import logging
import threading
import time
from http.server import BaseHTTPRequestHandler
from typing import Any, cast

import pytest

from roboco.errors import UsageError
from tests.support.mcp_servers import call, declare_server, listed, open_servers
from tests.support.servers.web import INITIALIZED, Answer, respond, send, serving

pytestmark = pytest.mark.slow


def unauthorized(handler: BaseHTTPRequestHandler, body: bytes) -> None:
    """Refuse the credentials, and repeat them."""
    send(handler, 401, (handler.headers["Authorization"] or "").encode(), "text/plain")


def endless(handler: BaseHTTPRequestHandler, body: bytes) -> None:
    """Send a response without end."""
    send(handler, 200, b"", "application/json", {"Content-Length": "1000000000"})
    while True:
        handler.wfile.write(b" " * 65_536)


def bomb(handler: BaseHTTPRequestHandler, body: bytes) -> None:
    """Send a small response that unpacks to 20 MB."""
    send(handler, 200, gzip.compress(b" " * 20_000_000), "application/json", {"Content-Encoding": "gzip"})


def web_page(handler: BaseHTTPRequestHandler, body: bytes) -> None:
    """Send a web page."""
    send(handler, 200, b"<html>", "text/html")


def mute(handler: BaseHTTPRequestHandler, body: bytes) -> None:
    """Send the head of a response, and no body."""
    send(handler, 200, b"", "text/event-stream", {"Content-Length": "100"})
    time.sleep(3)


CLIENT_HAS_CLOSED = threading.Event()


def ignore_calls_and_close(handler: BaseHTTPRequestHandler, body: bytes) -> None:
    """Complete the handshake, and answer neither calls nor the end of the session."""
    if b'"initialize"' in body:
        respond(handler, json.loads(body), INITIALIZED, {"Mcp-Session-Id": "7"})
    elif b'"notifications/initialized"' in body:
        send(handler, 202, b"", "text/plain")
    else:
        assert CLIENT_HAS_CLOSED.wait(60), "the client has closed the session"


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
    serve: Answer, error: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
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
    with serving(lambda handler, _: requests.append(handler.path)) as other:

        def redirect(handler: BaseHTTPRequestHandler, body: bytes) -> None:
            send(handler, 307, b"", "text/plain", {"Location": other})

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
