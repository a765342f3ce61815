"""content_coding: the compression of a file, as a client accepts it (RFC 9110, section 12.5.3)."""

import gzip
from collections.abc import Callable, Iterable, Mapping
from typing import Final

try:
    import brotli
except ImportError:  # without the extra `gateway`, as in an application that mounts the gateway: gzip is served
    brotli = None

IDENTITY: Final = "identity"
"""No compression. It is acceptable unless the client excludes it, and the last choice unless the client names it."""


def _gzip(content: bytes) -> bytes:
    return gzip.compress(content, 9, mtime=0)


def _brotli(content: bytes) -> bytes:
    return bytes(brotli.compress(content, quality=11))


ENCODERS: Final[Mapping[str, Callable[[bytes], bytes]]] = ({"br": _brotli} if brotli else {}) | {"gzip": _gzip}
"""The strongest compression of each coding, by its name. The best coding is the first."""


def choose_coding(accepted: str, offered: Iterable[str]) -> str:
    """Return the coding with the highest weight in an Accept-Encoding header; among equals, the first one offered.

    Return IDENTITY if the client accepts none of them.
    """
    weights = dict(map(_weight, accepted.lower().split(",")))
    others = weights.get("*", 0.0)
    plain = weights.get(IDENTITY, others or 0.0001)
    found = {coding: weights.get(coding, others) for coding in offered} | {IDENTITY: plain}
    best = max(found, key=lambda coding: found[coding])
    return best if found[best] > 0 else IDENTITY


def _weight(entry: str) -> tuple[str, float]:
    """Return the coding of an entry and its weight: 1 without one, 0 if it is malformed."""
    name, _, parameter = (part.strip() for part in entry.partition(";"))
    try:
        weight = float(parameter.removeprefix("q=")) if parameter else 1.0
    except ValueError:
        weight = 0.0
    return name, weight if 0 <= weight <= 1 else 0.0
