"""One HTTP POST to a checked address. It ends within seconds, whatever the server does."""

import http.client
import socket
import ssl
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

SOCKET_TIMEOUT = 5.0
"""Seconds to wait for a connection, and for each piece of a response."""
TOTAL_TIMEOUT = 10.0
"""Seconds after which the connection is closed, even if the server still sends."""
MAX_BODY_BYTES = 300
"""Bytes of a response body that are read, for error messages."""
DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class HttpResponse:
    """The response of a server."""

    status: int
    body: str
    """The beginning of its body."""
    retry_after: str
    """Its Retry-After header, or ""."""


def post(url: str, address: str, body: bytes, headers: Mapping[str, str]) -> HttpResponse:
    """Send the request and return the response. Follow no redirection, and resolve no name.

    Certificates are checked against the authorities of the system, or those in the file that SSL_CERT_FILE names.
    Raise OSError, http.client.HTTPException or ValueError if there is no response.
    """
    parts = urlsplit(url)
    port = parts.port or DEFAULT_PORTS[parts.scheme]
    held = [socket.create_connection((address, port), timeout=SOCKET_TIMEOUT)]
    over = threading.Event()
    timer = threading.Timer(TOTAL_TIMEOUT, lambda: _shut_down(held[0], over))
    timer.daemon = True
    timer.start()
    try:
        if parts.scheme == "https":
            secure = held[0] = _with_tls(held[0], parts.hostname)
            secure.do_handshake()
        client = http.client.HTTPConnection(parts.netloc)
        client.sock = held[0]
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        client.request("POST", path, body, dict(headers))
        answer = client.getresponse()
        said = answer.read(MAX_BODY_BYTES).decode("utf-8", "replace")
        if over.is_set():  # a truncated response looks like a complete one
            raise TimeoutError(f"no complete answer within {TOTAL_TIMEOUT:g} s")
        return HttpResponse(answer.status, said, answer.getheader("retry-after", ""))
    finally:
        timer.cancel()
        held[0].close()


def connect(url: str, address: str) -> socket.socket:
    """Return a new connection to the address. Raise OSError if it fails or the certificate is wrong."""
    parts = urlsplit(url)
    connection = socket.create_connection((address, parts.port or DEFAULT_PORTS[parts.scheme]), timeout=SOCKET_TIMEOUT)
    if parts.scheme != "https":
        return connection
    secure = _with_tls(connection, parts.hostname)
    try:
        secure.do_handshake()
    except OSError:
        secure.close()
        raise
    return secure


def _with_tls(connection: socket.socket, host: str | None) -> ssl.SSLSocket:
    """Return the connection with TLS, before the handshake."""
    context = ssl.create_default_context()
    return context.wrap_socket(connection, server_hostname=host, do_handshake_on_connect=False)


def _shut_down(connection: socket.socket, over: threading.Event) -> None:
    """Shut the connection down, so that a thread that waits for it continues."""
    over.set()
    try:
        socket.socket.shutdown(connection, socket.SHUT_RDWR)
    except OSError:
        return  # it is closed already
