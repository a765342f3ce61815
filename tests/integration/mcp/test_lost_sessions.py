"""MCP servers over HTTP that forget sessions, or refuse requests, in the ways of public servers."""

import json
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from roboco.errors import UsageError
from tests.support.mcp_servers import call, declare_server, listed, open_servers
from tests.support.servers.web import INITIALIZED, respond, send, serving

pytestmark = pytest.mark.slow

Refusal = tuple[int, str, bytes]
"""Status, content type and body."""


class ForgetfulServer:
    """A server with one tool, `buy`. `refusal` answers a request of a session that it does not know."""

    def __init__(self, refusal: Refusal | None = None) -> None:
        self.refusal = refusal
        self.sessions: set[str] = set()
        self.opened = 0
        self.bought = 0
        self.requests: list[str] = []
        self.on_call: Callable[[BaseHTTPRequestHandler, Any], bool] = lambda handler, request: False

    def answer(self, handler: BaseHTTPRequestHandler, body: bytes) -> None:
        """Answer one request. There are no others than POST."""
        if handler.command == "POST":
            self._answer(handler, json.loads(body))
        else:
            send(handler, 405, b"", "text/plain")

    def _answer(self, handler: BaseHTTPRequestHandler, request: Any) -> None:
        self.requests.append(request["method"])
        if request["method"] == "initialize":
            self.opened += 1
            self.sessions.add(str(self.opened))
            respond(handler, request, INITIALIZED, {"Mcp-Session-Id": str(self.opened)})
        elif self.refusal is not None and handler.headers["Mcp-Session-Id"] not in self.sessions:
            status, kind, words = self.refusal
            send(handler, status, words.replace(b'"ID"', json.dumps(request.get("id")).encode()), kind)
        elif "id" not in request:
            send(handler, 202, b"", "text/plain")
        elif request["method"] == "tools/list":
            respond(handler, request, {"tools": [{"name": "buy", "inputSchema": {"type": "object"}}]})
        elif request["method"] == "tools/call":
            if not self.on_call(handler, request):
                self.bought += 1
                respond(handler, request, {"content": [{"type": "text", "text": f"bought {self.bought}"}]})
        else:
            respond(handler, request, {})


def rpc_error(message: str, code: int = -32000) -> bytes:
    return f'{{"jsonrpc":"2.0","id":"ID","error":{{"code":{code},"message":"{message}"}}}}'.encode()


@pytest.mark.parametrize(
    "refusal",
    [
        (404, "application/json", rpc_error("Session not found", -32001)),
        (404, "text/plain", b"gone"),
        (401, "text/plain", b"Unauthorized: Session not found"),
        (500, "text/plain", b"Internal error: unknown session"),
        (503, "application/json", rpc_error("session is not initialized")),
        (200, "application/json", rpc_error("Invalid or missing session")),
        (200, "application/json", rpc_error("Received request before initialization was complete", -32602)),
        (200, "application/json", b'{"jsonrpc":"2.0","id":"ID","error":"Unable to locate session"}'),
        (200, "text/event-stream", b"data: " + rpc_error("stale session") + b"\n\n"),
        (200, "application/json", b'{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Session not found"}}'),
        (200, "application/json", rpc_error("Invalid request parameters", -32602)),
        (200, "text/plain", b"Session timed out"),
        (404, "text/html", b"<html>Not here</html>"),
    ],
    ids=lambda refusal: f"{refusal[0]} {refusal[2].decode()[:40]}",
)
def test_a_forgotten_session_is_renewed_once(refusal: Refusal) -> None:
    """A call finds the first loss of the session and the last one, a listing the one between them."""
    server = ForgetfulServer(refusal)
    with serving(server.answer) as url:
        declared = declare_server(url=url, tools=["buy"], connect_timeout=20, timeout=20)
        with open_servers(declared) as servers:
            assert call(servers, declared, "buy", {}) == "bought 1"
            for number in range(2, 5):
                server.sessions.clear()
                if number == 3:
                    assert list(listed(servers, declared)) == ["buy"]
                assert call(servers, declared, "buy", {}) == f"bought {number}"
    assert server.opened == 4


def test_a_call_that_may_have_run_is_not_repeated() -> None:
    server = ForgetfulServer()

    def fail(handler: BaseHTTPRequestHandler, request: Any) -> bool:
        server.bought += 1
        send(handler, 500, b"Internal error: the browser's session was not found", "text/plain")
        return True

    with serving(server.answer) as url:
        declared = declare_server(url=url, tools=["buy"], connect_timeout=20, timeout=20)
        with open_servers(declared) as servers:
            listed(servers, declared)
            server.on_call = fail
            with pytest.raises(UsageError, match=r"the browser's session was not found \(HTTP status 500\)"):
                call(servers, declared, "buy", {})
    assert (server.bought, server.opened) == (1, 1)


@pytest.mark.parametrize("status", [202, 502])
def test_a_server_that_answers_nothing_any_more_is_not_called_twice(status: int) -> None:
    server = ForgetfulServer()
    with serving(server.answer) as url:
        declared = declare_server(url=url, tools=["buy"], connect_timeout=20, timeout=20)
        with open_servers(declared) as servers:
            listed(servers, declared)
            server.sessions.clear()
            server.refusal = (status, "text/plain", b"")
            with pytest.raises(UsageError, match=f"HTTP status {status}|202 Accepted"):
                call(servers, declared, "buy", {})
    assert server.requests.count("tools/call") == 1


NOTICE = '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}'
ANSWER = '{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"a \\ud83d b"}]}}'


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("application/json; charset=utf-8", "\ufeff" + ANSWER),
        ("application/json", ANSWER.replace("ID", '"server"')),
        ("application/json", f"[{NOTICE},{ANSWER}]"),
        ("text/plain", ANSWER),
        ("application/vnd.api+json", ANSWER),
        ("text/event-stream", f"event: response\ndata: {ANSWER}\n\n"),
        ("text/event-stream", f": x\r\n\r\nid: 1\r\ndata: connected\r\n\r\ndata: {ANSWER}\r\n"),
        ("text/event-stream", f"data: [{NOTICE},\ndata: {ANSWER}]\n\ndata: [DONE]\n\n"),
    ],
)
def test_an_odd_body_is_read(kind: str, text: str) -> None:
    server = ForgetfulServer()

    def odd(handler: BaseHTTPRequestHandler, request: Any) -> bool:
        send(handler, 200, text.replace("ID", str(request["id"])).encode(), kind)
        return True

    server.on_call = odd
    with serving(server.answer) as url:
        declared = declare_server(url=url, tools=["buy"], connect_timeout=20, timeout=20)
        with open_servers(declared) as servers:
            assert call(servers, declared, "buy", {}) == "a \ufffd b"
