"""Places of brokers: whether two addresses lead to the same queues, whatever users, passwords and options they have."""

import re
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

_FAMILIES = {"rediss": "redis", "amqps": "amqp", "pyamqp": "amqp", "": "amqp"}
_PORTS = {"redis": 6379, "amqp": 5672, "sentinel": 26379}
_HERE = frozenset({None, "", "localhost", "::1"})


class Place(NamedTuple):
    """A server of a broker, and the database or virtual host on it."""

    family: str
    host: str
    port: int | None
    name: str


def same_broker(one: str | Sequence[str], other: str | Sequence[str]) -> bool:
    """Return True if the addresses name a common place, or if one of them cannot be read."""
    first, second = places(one), places(other)
    return not first or not second or bool(first & second)


def places(url: str | Sequence[str]) -> frozenset[Place]:
    """Return the places that an address, or several separated by ';' or ',', names; none if it cannot be read."""
    urls = re.split("[;,]", url) if isinstance(url, str) else [one for many in url for one in re.split("[;,]", many)]
    try:
        return frozenset(_place(one.strip()) for one in urls if one.strip())
    except ValueError:
        return frozenset()


def _place(url: str) -> Place:
    parts = urlsplit(url if "//" in url else f"//{url}")
    family = _FAMILIES.get(parts.scheme, parts.scheme)
    name = unquote(parts.path.removeprefix("/"))
    standard = "0" if family == "redis" else "/" if family == "amqp" else ""
    host = "127.0.0.1" if parts.hostname in _HERE else str(parts.hostname)
    return Place(family, host, parts.port or _PORTS.get(family), name or standard)
