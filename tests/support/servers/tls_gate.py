"""A TCP proxy that accepts TLS connections and passes plain data on to its server."""

import select
import socket
import ssl
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

_SIZE = 64 * 1024


class TlsGate:
    """A proxy that listens on `port` of this machine within its block, and passes data on to the server's port."""

    def __init__(self, server_port: int, context: ssl.SSLContext) -> None:
        self._server_port = server_port
        self._context = context
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self.port = 0

    def __enter__(self) -> Self:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._start_thread(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        with self._lock:
            for one in self._open:
                _shut_down(one)
        for thread in self._threads:
            thread.join(10)
        self._listener.close()

    def _start_thread(self, work: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=work, args=args, name="tls-gate", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._start_thread(self._serve, client)

    def _serve(self, client: socket.socket) -> None:
        try:
            with (
                client,
                self._context.wrap_socket(client, server_side=True) as secured,
                socket.create_connection(("127.0.0.1", self._server_port)) as server,
            ):
                self._pass(secured, server)
        except OSError:
            return  # a refused handshake, or a closed connection

    def _pass(self, secured: ssl.SSLSocket, server: socket.socket) -> None:
        with self._lock:
            self._open |= {secured, server}
        try:
            while True:
                ready = [secured] if secured.pending() else select.select([secured, server], [], [])[0]
                for source in ready:
                    data = source.recv(_SIZE)
                    if not data:
                        return
                    (server if source is secured else secured).sendall(data)
        finally:
            with self._lock:
                self._open -= {secured, server}


def _shut_down(one: socket.socket) -> None:
    try:
        one.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # already closed
