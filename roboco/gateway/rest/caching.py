"""caching: entity tags, and the headers of what one caller may read.

A tag is a digest of the bytes. It is the same on every gateway, and a client that has the bytes gets 304.
"""

import hashlib
from collections.abc import Mapping
from typing import Final

PRIVATE: Final[Mapping[str, str]] = {"Cache-Control": "private, no-cache", "Vary": "Authorization, Cookie, X-API-Key"}
"""Headers of what one caller may read: a cache of that caller alone may keep it, and asks again before each use."""


def etag_of(data: bytes) -> str:
    """Return the entity tag of a body."""
    return f'"{hashlib.sha256(data).hexdigest()[:32]}"'


def has_match(header: str | None, etag: str) -> bool:
    """Return True if an If-None-Match header names the tag, weakly compared, or any."""
    names = [name.strip().removeprefix("W/") for name in (header or "").split(",")]
    return etag in names or "*" in names
