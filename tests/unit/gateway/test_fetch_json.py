"""Documents of an OIDC provider, read from a real server: bounded, with TLS, and without redirections."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from roboco.errors import TransientError
from roboco.gateway.oidc import MAX_BYTES, fetch_json


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        bodies = {"/good": b'{"a": 1}', "/list": b"[]", "/large": b'"' + b"x" * MAX_BYTES + b'"', "/text": b"no"}
        if self.path == "/cut":
            self.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{")
            return
        if self.path == "/noise":
            self.wfile.write(b"noise\r\n\r\n")
            return
        if self.path == "/moved":
            self.send_response(302)
            self.send_header("Location", "/good")
        else:
            self.send_response(200 if self.path in bodies else 500)
        body = bodies.get(self.path, b"")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Yield the address of a server."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_an_object_is_read(address: str) -> None:
    assert fetch_json(f"{address}/good") == {"a": 1}


@pytest.mark.parametrize("path", ["/moved", "/list", "/large", "/text", "/nothing", "/cut", "/noise"])
def test_other_answers_are_refused(address: str, path: str) -> None:
    with pytest.raises(TransientError):
        fetch_json(address + path)


@pytest.mark.parametrize("place", ["https://[x", "https://h:99999/", "https://h\n/"])
def test_malformed_addresses_are_refused(place: str) -> None:
    with pytest.raises(TransientError):
        fetch_json(place)


@pytest.mark.parametrize("place", ["http://login.example/x", "file:///etc/passwd", "ftp://127.0.0.1/x", "x", ""])
def test_addresses_without_tls_are_refused(place: str) -> None:
    with pytest.raises(TransientError, match="no TLS"):
        fetch_json(place)
