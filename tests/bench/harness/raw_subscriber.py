"""A subscriber on a bare socket, which receives stamped chunks on many channels at the least possible cost."""

import re
import socket
import threading
import time
from collections.abc import Sequence
from typing import Self
from urllib.parse import urlsplit

_STAMP = re.compile(rb"(?<![0-9a-f])(1\d{18}) ")
_MAX_BYTES = 1 << 18


class RawSubscriber:
    """A subscription that a thread reads within a `with` block.

    `received` holds (time of sending, time of receipt) in ns since the epoch, in the order of receipt.
    """

    def __init__(self, url: str, channels: Sequence[str]) -> None:
        address = urlsplit(url)
        self.received: list[tuple[int, int]] = []
        self._socket = socket.create_connection((str(address.hostname), address.port), timeout=30)
        words = ["SUBSCRIBE", *channels]
        self._socket.sendall("".join([f"*{len(words)}\r\n", *(f"${len(one)}\r\n{one}\r\n" for one in words)]).encode())
        self._rest = b""
        while self._rest.count(b"subscribe\r\n") < len(channels):
            self._rest += self._socket.recv(_MAX_BYTES)
        self._socket.settimeout(None)
        self._thread = threading.Thread(target=self._listen, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(10)
        self._socket.close()

    def _listen(self) -> None:
        while data := self._socket.recv(_MAX_BYTES):
            now = time.time_ns()
            whole, end, rest = (self._rest + data).rpartition(b"\n")
            self._rest = rest
            self.received += [(int(stamp), now) for stamp in _STAMP.findall(whole + end)]
