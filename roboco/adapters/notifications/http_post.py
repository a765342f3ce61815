"""post: one request to an address that was checked, over within seconds whatever the server does."""

import http.client
import socket
import ssl
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

EACH = 5.0
"""Seconds for which a connection, and each piece of an answer, is waited for."""
LONGEST = 10.0
"""Seconds after which the connection is closed, however much comes."""
SHOWN = 300
"""How many bytes of an answer are read: what it says of a refusal."""
PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class Answer:
    """What a server answers: the beginning of its text, and its Retry-After, or ""."""

    status: int
    said: str
    retry_after: str


def post(url: str, address: str, body: bytes, headers: Mapping[str, str]) -> Answer:
    """The answer. No redirection is followed, and no name looked up.

    Certificates are checked against the authorities of the system, or those in the file that SSL_CERT_FILE names.
    OSError, http.client.HTTPException or ValueError if there is no answer.
    """
    parts = urlsplit(url)
    port = parts.port or PORTS[parts.scheme]
    held = [socket.create_connection((address, port), timeout=EACH)]
    over = threading.Event()
    timer = threading.Timer(LONGEST, lambda: _cut(held[0], over))
    timer.daemon = True
    timer.start()
    try:
        if parts.scheme == "https":
            secure = held[0] = _secured(held[0], parts.hostname)
            secure.do_handshake()
        client = http.client.HTTPConnection(parts.netloc)
        client.sock = held[0]
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        client.request("POST", path, body, dict(headers))
        answer = client.getresponse()
        said = answer.read(SHOWN).decode("utf-8", "replace")
        if over.is_set():  # what was cut off looks like an answer that has ended
            raise TimeoutError(f"no whole answer within {LONGEST:g} s")
        return Answer(answer.status, said, answer.getheader("retry-after", ""))
    finally:
        timer.cancel()
        held[0].close()


def connected(url: str, address: str) -> socket.socket:
    """A connection to the address on which nothing was sent yet; OSError if it fails, or the certificate is wrong."""
    parts = urlsplit(url)
    connection = socket.create_connection((address, parts.port or PORTS[parts.scheme]), timeout=EACH)
    if parts.scheme != "https":
        return connection
    secure = _secured(connection, parts.hostname)
    try:
        secure.do_handshake()
    except OSError:
        secure.close()
        raise
    return secure


def _secured(connection: socket.socket, host: str | None) -> ssl.SSLSocket:
    """The connection with TLS, before it has said anything."""
    context = ssl.create_default_context()
    return context.wrap_socket(connection, server_hostname=host, do_handshake_on_connect=False)


def _cut(connection: socket.socket, over: threading.Event) -> None:
    """End whatever waits for the connection."""
    over.set()
    try:
        socket.socket.shutdown(connection, socket.SHUT_RDWR)
    except OSError:
        return  # it has ended already
