"""sorted_lines: read a file whose lines are sorted by a key, from any key on, without holding more than a piece of it.

    key ─► bisection over the bytes ─► offset before its line ─► piece ─► piece ─► ...

The caller reads the bytes. Lines that are added at the end meanwhile may be found or not. If the file is replaced by
one with other offsets, a line may lack its start, which its parser finds. Each line is from one read, so it is never
made of two.
"""

from collections.abc import Callable, Iterator
from typing import Any

ReadPart = Callable[[int, int], bytes]
"""Returns bytes from an offset on: as many as the second argument says, fewer only at the end of the file."""
PIECE_BYTES = 256 * 1024
"""Bytes that are read at a time. A longer line is held whole."""
PROBE_BYTES = 16 * 1024
"""Bytes that a step of the bisection reads first."""


def lines_from(read: ReadPart, size: int, key: Callable[[bytes], Any], first: Any) -> Iterator[bytes]:
    """Yield the complete lines whose key is at least `first`, of a file of about this size.

    Cost: a read for each doubling of the file beyond PIECE_BYTES, and one for each piece that the caller takes.
    """
    low, high = 0, size
    while high - low > PIECE_BYTES:
        middle = (low + high) // 2
        found = _line_after(read, middle)
        if found is not None and key(found[1]) < first:
            low = found[0]
        else:
            high = middle
    lines = _lines(read, low)
    for line in lines:
        if not key(line) < first:
            yield line
            break
    yield from lines


def _line_after(read: ReadPart, offset: int) -> tuple[int, bytes] | None:
    """Return the first line that begins after the offset, with its own offset, or None if none is complete."""
    length = PROBE_BYTES
    while True:
        data = read(offset, length)
        begin = data.find(b"\n") + 1
        end = data.find(b"\n", begin) if begin else -1
        if end >= 0:
            return offset + begin, data[begin:end]
        if len(data) < length:
            return None
        length *= 4


def _lines(read: ReadPart, offset: int) -> Iterator[bytes]:
    length = PIECE_BYTES
    while data := read(offset, length):
        end = data.rfind(b"\n") + 1
        yield from data[:end].split(b"\n")[:-1]
        if len(data) < length:
            return
        offset += end
        length = PIECE_BYTES if end else 4 * length
