"""Media: files that a tool's result holds, before they are stored as artifacts."""

from dataclasses import dataclass

MOST_MEDIA = 20
"""How many files of one result are kept."""


@dataclass(frozen=True)
class Media:
    """A file in part number `part`, counted from 0, of a result that is a list of parts.

    `kind` is "image", "audio" or "resource"; `mime_type` is the server's word, which its bytes may belie.
    """

    part: int
    kind: str
    mime_type: str
    data: bytes
