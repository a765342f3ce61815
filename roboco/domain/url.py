"""URLs of servers: whether they are plain, and whether one covers another."""

import ipaddress
import re
from typing import Annotated
from urllib.parse import SplitResult, unquote_to_bytes, urlsplit

from pydantic import AfterValidator

_URL = re.compile(r"https?://(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?(?:[/?][!$-;=?-Z_a-z~]*)?")
_WORD = re.compile(r"\S+")
_NEXT_URL = re.compile(r"(?<=[;,])(?=[A-Za-z][A-Za-z0-9+.-]{0,30}://)")
"""The start of the next URL of a list. A password in a URL that a program can read contains no '/'."""
_PLAIN_URL = re.compile(r"[^:]*://(?:\[[0-9A-Fa-f:.]+\]|[\w.-]*)(?::[0-9]*)?(?:[/?][^@]*)?[;,]")
"""A URL of a list without user and password."""
_CREDENTIAL_OPTION = re.compile(r"(?<=[?&])((?:ssl_)?password|username)=[^&#;,\s'\"]*", re.IGNORECASE)
_NUMBER = re.compile(r"[0-9]+|0[xX][0-9A-Fa-f]*")
_ESCAPED = re.compile(r"%(?:[01][0-9A-Fa-f]|7[fF]|25|2[eEfF]|3[bB]|5[cC]|(?![0-9A-Fa-f]{2}).{0,2})")
_PORTS = {"http": 80, "https": 443}


def url_error(url: str) -> str:
    """Return the mistake in the URL, or "" if every program reads it in the same way."""
    if not _URL.fullmatch(url):
        return "must be an address such as 'https://example.com/v1', without user, password and fragment"
    try:
        parts = urlsplit(url)
    except ValueError as error:
        return f"cannot be read: {error}"
    return _host_error(parts) or _path_error(parts.path)


def check_url(url: str) -> str:
    """Return the URL. Raise ValueError if programs may read it differently."""
    if mistake := url_error(url):
        raise ValueError(mistake)
    return url


PlainUrl = Annotated[str, AfterValidator(check_url)]
"""A URL that every program reads in the same way."""


def _host_error(parts: SplitResult) -> str:
    """Return the mistake in the host or port, or "". Some programs read 0x7f.1 and 2130706433 as addresses."""
    host, port = parts.netloc, ""
    if not host.endswith("]"):
        host, _, port = host.rpartition(":") if ":" in host else (host, "", "")
    if port and not 0 < int(port) <= 65_535:
        return f"has the port {port}, possible are 1 to 65535"
    if host.startswith("["):
        return "" if _is_ipv6(host[1:-1]) else f"has a host that is no IPv6 address ({host})"
    labels = host.split(".")
    if "" in labels:
        return f"has a host with an empty part ({host}): leave dots at its beginning and end out"
    if _NUMBER.fullmatch(labels[-1]) and not _is_ipv4(host):
        return f"has a host that is a number, but no plain IPv4 address ({host})"
    return ""


def _path_error(path: str) -> str:
    """Return the mistake in the path, or "": parts that servers and proxies read in different ways."""
    if "//" in path:
        return "has a path with '//'"
    if bad := _ESCAPED.search(path):
        return f"has a path with {bad[0]!r}: escaped, '%', '/', '\\\\', '.', ';' and control characters are not allowed"
    try:
        unquoted = unquote_to_bytes(path).decode()
    except UnicodeDecodeError:
        return "has a path with escaped bytes that are no UTF-8"
    steps = [step.partition(";")[0].strip() for step in unquoted.split("/")]
    if "." in steps or ".." in steps:
        return "has a path with '.' or '..'"
    return ""


def _is_ipv4(host: str) -> bool:
    try:
        return str(ipaddress.IPv4Address(host)) == host
    except ValueError:
        return False


def _is_ipv6(host: str) -> bool:
    try:
        return ipaddress.IPv6Address(host).scope_id is None
    except ValueError:
        return False


def covers(entry: str, url: str) -> bool:
    """Return True if the URL equals the entry, or is below it; False if either is not plain."""
    if url_error(entry) or url_error(url):
        return False
    above, below = urlsplit(entry), urlsplit(url)
    if _origin(above) != _origin(below):
        return False
    if above.query:
        return (above.path, above.query) == (below.path, below.query)
    folder = above.path.rstrip("/")
    return below.path.rstrip("/") == folder or below.path.startswith(f"{folder}/")


def without_query(url: str) -> str:
    """Return the URL without its query, which may hold a key."""
    return url.partition("?")[0]


def strip_credentials(text: str) -> str:
    """Return the text with "***" in place of users and passwords in URLs, and among their options.

    Each URL of a list such as "redis://:pw@a;redis://:pw@b" keeps its host.
    """
    return _CREDENTIAL_OPTION.sub(r"\1=***", _WORD.sub(lambda word: _masked(word[0]), text))


def _masked(word: str) -> str:
    """Return the word with the users and passwords masked in each URL in it.

    If a part of a list is not a plain URL, it may be the beginning of a password: it is masked with the next part.
    """
    if "://" not in word or "@" not in word:
        return word
    done: list[str] = []
    held: list[str] = []
    for part in _NEXT_URL.split(word):
        held.append(part)
        if "@" in part.partition("://")[2]:
            before, _, rest = "".join(held).partition("://")
            done.append(f"{before}://***@{rest.rpartition('@')[2]}")
        elif len(held) == 1 and ("://" not in part or _PLAIN_URL.fullmatch(part)):
            done.append(part)
        else:
            continue
        held = []
    return "".join(done + held)


def _origin(parts: SplitResult) -> tuple[str, str | None, int | None]:
    """Return the scheme, host and port; an IPv6 address in its shortest form."""
    host = parts.hostname
    if host is not None and ":" in host:
        host = str(ipaddress.IPv6Address(host))
    return parts.scheme, host, parts.port or _PORTS[parts.scheme]
