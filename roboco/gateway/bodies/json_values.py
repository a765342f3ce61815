"""JsonValues: counts the values of a body in JSON before it is parsed, so that no body keeps the event loop for long.

    piece of the body ─► without escapes ─► split at quotes ─► every other part is outside of strings ─► , [ { counted

To parse and check a value costs a microsecond or several, and a wrong one more, in one call that no other thread
interrupts: a thread would delay the streams of the process as well. A long text costs almost nothing. So the number of
values is bounded, and not that of bytes alone. The count is exact as far as the body is JSON; a parser stops there.
"""

from typing import Final

_OPENINGS: Final = (b",", b"[", b"{")
"""The bytes before which or after which a value is: values are at most one more than these."""


class JsonValues:
    """The values in the pieces of one body. The cost of a piece grows with its bytes: some milliseconds for 8 MB."""

    def __init__(self) -> None:
        self.count = 0
        """The arrays, objects, and their members so far; empty ones count as well."""
        self.is_utf8 = True
        """False if the body has a zero byte: JSON has none in UTF-8, and each value has some in UTF-16 and UTF-32."""
        self._in_string = False
        self._escaped = False
        """Whether the first byte of the next piece is escaped."""

    def add(self, piece: bytes) -> None:
        """Count the values of the next piece."""
        if not piece:
            return
        self.is_utf8 = self.is_utf8 and b"\0" not in piece
        rest = (piece[1:] if self._escaped else piece).replace(b"\\\\", b"")
        self._escaped = rest.endswith(b"\\")
        parts = rest.replace(b'\\"', b"").split(b'"')
        outside = b"".join(parts[self._in_string :: 2])
        self.count += sum(map(outside.count, _OPENINGS))
        self._in_string ^= len(parts) % 2 == 0
