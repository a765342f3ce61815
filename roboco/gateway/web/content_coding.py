"""content_coding: the compression of a file, as a client accepts it."""

import gzip
from collections.abc import Callable, Iterable, Mapping
from typing import Final

try:
    import brotli
except ImportError:  # without the extra `gateway`, as in an application that mounts the gateway: gzip is served
    brotli = None

IDENTITY: Final = "identity"
"""No compression, which every client accepts."""


def _gzip(content: bytes) -> bytes:
    return gzip.compress(content, 9, mtime=0)


def _brotli(content: bytes) -> bytes:
    return bytes(brotli.compress(content, quality=11))


ENCODERS: Final[Mapping[str, Callable[[bytes], bytes]]] = ({"br": _brotli} if brotli else {}) | {"gzip": _gzip}
"""The strongest compression of each coding, by its name. The best coding is the first."""


def choose_coding(accepted: str, offered: Iterable[str]) -> str:
    """Return the first coding that an Accept-Encoding header names without a weight, as browsers do, or IDENTITY."""
    names = {name.strip() for name in accepted.lower().split(",")}
    return next((coding for coding in offered if coding in names), IDENTITY)
