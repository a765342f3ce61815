"""Media: files in a tool's result, before they are stored as artifacts."""

from dataclasses import dataclass

MAX_MEDIA_FILES = 20
"""The largest number of files of one result that are stored."""


@dataclass(frozen=True)
class Media:
    """A file in a result that is a list of parts."""

    part: int
    """The index of the part, from 0."""
    kind: str
    """"image", "audio", "resource" or "file"."""
    mime_type: str
    """The MIME type according to the server; the bytes may contradict it."""
    data: bytes
    name: str = ""
    """The name of a file that has one."""
