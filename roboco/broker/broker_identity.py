"""Comparison of brokers: two URLs with other users, passwords and options may name the same queues."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

_FAMILIES = {"rediss": "redis", "amqps": "amqp", "pyamqp": "amqp", "": "amqp"}
_PORTS = {"redis": 6379, "amqp": 5672, "sentinel": 26379}
_LOCALHOSTS = frozenset({None, "", "localhost", "::1"})


_SEPARATOR = re.compile(r";|,(?=[A-Za-z][A-Za-z0-9+.-]*://)")
"""The separator of URLs. A ',' may also be part of a password, or separate the hosts of one URL."""


class BrokerServer(NamedTuple):
    """A server of a broker, and the database or virtual host on it."""

    family: str
    host: str
    port: int | None
    name: str


def same_broker(one: str | Sequence[str], other: str | Sequence[str]) -> bool:
    """Return True if the URLs have a server and database in common, or if one of them cannot be parsed."""
    first, second = broker_servers(one), broker_servers(other)
    return not first or not second or bool(first & second)


def broker_servers(url: str | Sequence[str]) -> frozenset[BrokerServer]:
    """Return the servers of one URL, or of several separated by ';' or ','; none if one cannot be parsed."""
    urls = [one.strip() for many in ([url] if isinstance(url, str) else url) for one in _SEPARATOR.split(many)]
    try:
        return frozenset(place for one in urls if one for place in _servers(one))
    except ValueError:
        return frozenset()


def _servers(url: str) -> Iterator[BrokerServer]:
    parts = urlsplit(url if "//" in url else f"//{url}")
    family = _FAMILIES.get(parts.scheme, parts.scheme)
    name = unquote(parts.path.removeprefix("/"))
    standard = "0" if family == "redis" else "/" if family == "amqp" else ""
    for netloc in parts.netloc.rpartition("@")[2].split(","):
        server = urlsplit(f"//{netloc}")
        host = "127.0.0.1" if server.hostname in _LOCALHOSTS else str(server.hostname)
        yield BrokerServer(family, host, server.port or _PORTS.get(family), name or standard)
