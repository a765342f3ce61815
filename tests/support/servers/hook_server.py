"""A receiver of webhooks with scripted answers, also malformed ones."""

import socket
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

Answer = Callable[[socket.socket, int], None]
"""Answers the n-th request, from 0, on its connection."""


@dataclass(frozen=True)
class Posted:
    """A received request."""

    path: str
    headers: dict[str, str]
    body: bytes
    at: float


class HookServer:
    """A server that keeps all requests in `posted`. With a server's SSL context it speaks TLS."""

    def __init__(self, answer: Answer | None = None, tls: ssl.SSLContext | None = None) -> None:
        self.answer = answer or status(204)
        self._tls = tls
        self.posted: list[Posted] = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve, daemon=True)

    @property
    def url(self) -> str:
        """The server's URL."""
        return f"http{'s' if self._tls else ''}://127.0.0.1:{self._socket.getsockname()[1]}/"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._take, args=(connection,), daemon=True).start()

    def _take(self, connection: socket.socket) -> None:
        if self._tls is not None:
            try:
                connection = self._tls.wrap_socket(connection, server_side=True)
            except OSError:
                connection.close()
                return  # the sender does not trust the certificate
        with connection:
            connection.settimeout(30)
            head, body = b"", b""
            while b"\r\n\r\n" not in head:
                if not (piece := connection.recv(65536)):
                    return
                head += piece
            head, _, body = head.partition(b"\r\n\r\n")
            first, *lines = head.decode().split("\r\n")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
            while len(body) < int(headers.get("content-length", 0)):
                if not (piece := connection.recv(65536)):
                    return
                body += piece
            self.posted.append(Posted(first.split()[1], headers, body, time.time()))
            try:
                self.answer(connection, len(self.posted) - 1)
            except OSError:
                return  # the sender has closed the connection


def status(code: int, text: str = "", **headers: str) -> Answer:
    """Return an answer with this status."""
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    head = f"HTTP/1.1 {code} x\r\ncontent-length: {len(text)}\r\n{lines}\r\n{text}"
    return lambda connection, _: connection.sendall(head.encode())
