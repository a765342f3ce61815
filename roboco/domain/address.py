"""Addresses of servers: which are plain, and whether one leads to another."""

import re
from urllib.parse import SplitResult, unquote, urlsplit

_URL = re.compile(r"https?://(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?(?:[/?][!$-;=?-Z_a-z~]*)?")
_CREDENTIALS = re.compile(r"://\S*@")
_AMONG_OPTIONS = re.compile(r"(?<=[?&])((?:ssl_)?password|username)=[^&#;,\s'\"]*", re.IGNORECASE)
_PORTS = {"http": 80, "https": 443}


def url_mistake(url: str) -> str:
    """What is wrong with the address; "" if every program reads it in the same way."""
    if not _URL.fullmatch(url):
        return "must be an address such as 'https://example.com/v1', without user, password and fragment"
    parts = urlsplit(url)
    if parts.netloc.rpartition(":")[2].isdigit() and int(parts.netloc.rpartition(":")[2]) > 65_535:
        return "has a port above 65535"
    steps = unquote(parts.path).replace("\\", "/").split("/")
    if "." in steps or ".." in steps or "%2f" in parts.path.lower() or "%25" in parts.path:
        return "has a path with '.', '..' or an escaped '/' or '%'"
    return ""


def leads(entry: str, url: str) -> bool:
    """Whether the address is the entry, or lies below it; False if either is not plain."""
    if url_mistake(entry) or url_mistake(url):
        return False
    above, below = urlsplit(entry), urlsplit(url)
    if _origin(above) != _origin(below):
        return False
    if above.query:
        return (above.path, above.query) == (below.path, below.query)
    folder = above.path.rstrip("/")
    return below.path.rstrip("/") == folder or below.path.startswith(f"{folder}/")


def without_credentials(text: str) -> str:
    """The text with "***" in place of users and passwords in addresses, and among their options."""
    return _AMONG_OPTIONS.sub(r"\1=***", _CREDENTIALS.sub("://***@", text))


def _origin(parts: SplitResult) -> tuple[str, str | None, int | None]:
    return parts.scheme, parts.hostname, parts.port or _PORTS[parts.scheme]
