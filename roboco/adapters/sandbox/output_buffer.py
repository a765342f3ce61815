"""The output of a run, of which the beginning and the end are kept."""

import codecs


class Output:
    """At most `cap` bytes of what was fed, however much that was."""

    def __init__(self, cap: int) -> None:
        self._half = cap // 2
        self._head = bytearray()
        self._tail = bytearray()
        self.total = 0
        """Bytes that were fed."""

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        self.total += len(data)
        room = self._half - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        del self._tail[: -self._half]

    def text(self) -> str:
        """What is kept, with a line that says how much was left out in the middle."""
        left_out = self.total - len(self._head) - len(self._tail)
        if not left_out:
            return (self._head + self._tail).decode(errors="replace")
        head = codecs.getincrementaldecoder("utf-8")(errors="replace").decode(bytes(self._head))
        tail = bytes(self._tail)
        begins = next((at for at, byte in enumerate(tail[:4]) if byte & 0xC0 != 0x80), 0)
        return f"{head}\n[... {left_out + begins} bytes of output left out here ...]\n" + tail[begins:].decode(
            errors="replace"
        )
