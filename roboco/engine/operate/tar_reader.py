"""tar_reader: the members of a tar, of the forms alone that the export writes.

    block of 512 bytes ─► plain file ─► name, size ─► content ─► padding ─► next block, or zeros: the end
                       └► extended header of 1 KB ─► "LENGTH path=..." or "LENGTH size=..." ─► plain file

`tarfile` reads many more forms, some of them in quadratic time: 80 KB of extended headers held the process for 43 s.
"""

import io
import re
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

BLOCK: Final = tarfile.BLOCKSIZE
MAX_EXTENSION: Final = 1024
"""Bytes of an extended header. The export writes one for a long name, and for a file of more than 8 GiB."""
_RECORD: Final = re.compile(rb"([0-9]{1,4}) (path|size)=([^\n]{1,400})\n")


class UnreadableTar(Exception):
    """The tar is truncated, or has a form that the export does not write."""


@dataclass(frozen=True)
class TarMember:
    """A plain file of a tar."""

    name: str
    size: int
    start: int
    """The position of its content."""

    def open(self, source: BinaryIO) -> BinaryIO:
        """Return its content. Other members of the same source cannot be read meanwhile."""
        content: Any = io.BufferedReader(_Window(source, self.start, self.size))
        return content  # type: ignore[no-any-return]


def members_of(source: BinaryIO) -> Iterator[TarMember]:
    """Yield the members in order. Raise UnreadableTar for anything else. Cost: one read of 512 bytes for each."""
    position, extension = 0, dict[bytes, bytes]()
    while any(block := _read(source, position, BLOCK)):
        position += BLOCK
        try:
            info = tarfile.TarInfo.frombuf(block, "utf-8", "strict")
        except (tarfile.HeaderError, ValueError) as error:
            raise UnreadableTar(f"a header is malformed: {error}") from error
        if info.type == tarfile.XHDTYPE and not extension and 0 < info.size <= MAX_EXTENSION:
            extension = _records(_read(source, position, info.size))
        elif info.type == tarfile.REGTYPE:
            name, size = _text(extension.get(b"path"), info.name), int(extension.get(b"size", info.size))
            extension = {}
            yield TarMember(name, size, position)
            info.size = size
        else:
            raise UnreadableTar(f"{info.name[:120]!r} is no plain file")
        if info.size < 0:
            raise UnreadableTar(f"{info.name[:120]!r} has a negative size")
        position += info.size + -info.size % BLOCK


def _read(source: BinaryIO, position: int, size: int) -> bytes:
    source.seek(position)
    if len(data := source.read(size)) < size:
        raise UnreadableTar("it is truncated")
    return data


def _records(data: bytes) -> dict[bytes, bytes]:
    """Return the values of an extended header by their names."""
    found, start = dict[bytes, bytes](), 0
    while start < len(data):
        record = _RECORD.match(data, start)
        if record is None or int(record[1]) != record.end() - start or record[2] in found:
            raise UnreadableTar("an extended header is not one that an export writes")
        found[record[2]] = record[3]
        start = record.end()
    if not found.get(b"size", b"0").isdigit() or len(found.get(b"size", b"")) > 20:
        raise UnreadableTar("an extended header has no size")
    return found


def _text(extended: bytes | None, name: str) -> str:
    try:
        return name if extended is None else extended.decode()
    except UnicodeDecodeError as error:
        raise UnreadableTar("a name is not in UTF-8") from error


class _Window(io.RawIOBase):
    """A part of a source."""

    def __init__(self, source: BinaryIO, start: int, size: int) -> None:
        super().__init__()
        self._source = source
        self._start = start
        self._size = size
        self._at = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def seek(self, position: int, whence: int = io.SEEK_SET) -> int:
        """Move within the part, and return the new place."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at}.get(whence, self._size)
        self._at = max(0, base + position)
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Read into the buffer. Raise UnreadableTar if the source ends within the part."""
        wanted = max(0, min(len(buffer), self._size - self._at))
        data = _read(self._source, self._start + self._at, wanted) if wanted else b""
        buffer[:wanted] = data
        self._at += wanted
        return wanted
