"""ranges: the part of a file that a request asks for, by the headers Range and If-Range (RFC 9110, section 14)."""

import re
from dataclasses import dataclass
from typing import Final

from roboco.gateway.problem import Problem

_RANGE: Final = re.compile(r"bytes= *+([0-9]{0,18}) *+- *+([0-9]{0,18}) *+")


@dataclass(frozen=True)
class ByteRange:
    """Consecutive bytes of a file."""

    start: int
    length: int


def requested_range(header: str | None, if_range: str | None, etag: str, size: int) -> ByteRange | None:
    """Return the range that a request asks for, or None for the whole file. Raise Problem if it has no byte.

    A header with another unit, with several ranges, or with mistakes is ignored, as the standard allows. So is one
    whose If-Range does not name the file's tag: the client has a part of another file.
    """
    match = _RANGE.fullmatch(header or "")
    if match is None or if_range not in (None, etag) or match[1] == match[2] == "":
        return None
    if match[1] == "":
        start, end = max(0, size - int(match[2])), size
    else:
        start, end = int(match[1]), int(match[2]) + 1 if match[2] else size
        if end <= start < size:
            return None
    if start >= min(end, size):
        whole = f"bytes */{size}"
        headers = {"Content-Range": whole}
        raise Problem(416, "range_not_satisfiable", f"the file has no such bytes: {whole}", headers=headers)
    return ByteRange(start, min(end, size) - start)
