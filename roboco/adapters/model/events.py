"""Server-sent events: the data that a stream of bytes holds, as it comes.

https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation. A model says a word at a
time, and hundreds of models speak at once: what a word costs here is most of what it costs at all.
"""

from collections.abc import Iterator

from roboco.errors import ModelError

MOST_EVENT = 5_000_000
"""Bytes of an event, and of a line: little more than a text may have. Read as JSON, it may take twenty times that."""


class EventData:
    """Reads the data of events; their names, ids and comments are left out."""

    def __init__(self) -> None:
        self._rest = bytearray()  # of a line that has not ended
        self._data: list[bytes] = []  # of an event that has not ended
        self._size = 0  # of its lines

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The data of each event that ends in these bytes; ModelError for an event or a line that is too long."""
        self._check(len(self._rest) + len(data))
        if not (b"\n" in data or b"\r" in data or self._rest.endswith(b"\r")):
            self._rest += data
            return
        text = bytes(self._rest) + data
        held = b"\r" if text.endswith(b"\r") else b""  # the first half of a line's end, perhaps
        lines = text.removesuffix(held).splitlines(keepends=True)
        ended = not lines or lines[-1].endswith((b"\n", b"\r"))
        self._rest = bytearray(held if ended else lines.pop() + held)
        for line in lines:
            yield from self._take(line.rstrip(b"\r\n"))

    def _take(self, line: bytes) -> Iterator[bytes]:
        if line.startswith(b"data:"):
            self._size += len(line)
            self._check(self._size)
            self._data.append(line[5:].removeprefix(b" "))
        elif not line and self._data:
            data, self._data, self._size = self._data, [], 0
            yield b"\n".join(data)

    def _check(self, size: int) -> None:
        if size > MOST_EVENT:
            message = f"the model server sent an event of more than {MOST_EVENT} bytes"
            raise ModelError("too_long", message, False)
