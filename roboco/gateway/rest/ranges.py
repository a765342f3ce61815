"""ranges: the part of a file that a request asks for, by the headers Range and If-Range (RFC 9110, section 14)."""

import re
from dataclasses import dataclass
from typing import Final

_RANGE: Final = re.compile(r"bytes= *+([0-9]{0,18}) *+- *+([0-9]{0,18}) *+")


@dataclass(frozen=True)
class ByteRange:
    """Consecutive bytes of a file. `length` is at least 1."""

    start: int
    length: int

    def header(self, size: int) -> str:
        """Return the value of Content-Range for a file of this size."""
        return f"bytes {self.start}-{self.start + self.length - 1}/{size}"


@dataclass(frozen=True)
class Unsatisfiable:
    """A range that contains no byte of the file."""


def requested_range(header: str | None, if_range: str | None, etag: str, size: int) -> ByteRange | Unsatisfiable | None:
    """Return the range that a request asks for, or None for the whole file.

    A header with another unit, with several ranges, or with mistakes is ignored, as the standard allows. So is one
    whose If-Range does not name the file's tag: the client has a part of another file.
    """
    match = _RANGE.fullmatch(header or "")
    if match is None or if_range not in (None, etag) or match[1] == match[2] == "":
        return None
    if match[1] == "":
        return _part(max(0, size - int(match[2])), size, size)
    start, end = int(match[1]), int(match[2]) + 1 if match[2] else size
    return None if end <= start < size else _part(start, end, size)


def _part(start: int, end: int, size: int) -> ByteRange | Unsatisfiable:
    length = min(end, size) - start
    return ByteRange(start, length) if length > 0 else Unsatisfiable()
