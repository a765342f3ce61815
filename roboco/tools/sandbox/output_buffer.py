"""The output of a run, with its middle left out if it is long."""

import codecs


class OutputBuffer:
    """Keeps at most `cap` bytes of the output: its beginning and its end."""

    def __init__(self, cap: int) -> None:
        self._half = cap // 2
        self._head = bytearray()
        self._tail = bytearray()
        self.total = 0
        """Number of bytes that were fed."""

    def append(self, data: bytes) -> None:
        """Append the next bytes."""
        self.total += len(data)
        room = self._half - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        del self._tail[: -self._half]

    def text(self) -> str:
        """Return the kept text, with a line that states how much was left out in the middle."""
        left_out = self.total - len(self._head) - len(self._tail)
        if not left_out:
            return (self._head + self._tail).decode(errors="replace")
        head = codecs.getincrementaldecoder("utf-8")(errors="replace").decode(bytes(self._head))
        tail = bytes(self._tail)
        begins = next((at for at, byte in enumerate(tail[:4]) if byte & 0xC0 != 0x80), 0)
        return f"{head}\n[... {left_out + begins} bytes of output left out here ...]\n" + tail[begins:].decode(
            errors="replace"
        )
