"""A web server that answers each request by a function, and the responses of MCP servers."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[[BaseHTTPRequestHandler, bytes], None]
"""Answers a request with this body."""
INITIALIZED = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "web", "version": "1"}}


@contextmanager
def serving(answer: Answer) -> Iterator[str]:
    """Yield the address of a server that answers each request so."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            try:
                answer(self, self.rfile.read(int(self.headers["Content-Length"] or 0)))
            except OSError:
                self.close_connection = True

        do_GET = do_DELETE = do_POST  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def send(
    handler: BaseHTTPRequestHandler, status: int, body: bytes, kind: str, headers: Mapping[str, str] | None = None
) -> None:
    """Send a response."""
    handler.send_response(status)
    for name, value in ({"Content-Type": kind, "Content-Length": str(len(body))} | dict(headers or {})).items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(body)


def send_json(
    handler: BaseHTTPRequestHandler, data: Any, status: int = 200, headers: Mapping[str, str] | None = None
) -> None:
    """Send JSON."""
    send(handler, status, json.dumps(data).encode(), "application/json", headers)


def respond(
    handler: BaseHTTPRequestHandler, request: Any, result: Any, headers: Mapping[str, str] | None = None
) -> None:
    """Send the result of a request."""
    send_json(handler, {"jsonrpc": "2.0", "id": request["id"], "result": result}, headers=headers)
