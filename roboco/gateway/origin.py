"""origin: refuse requests that another web page causes in a user's browser.

    page of another site ─► the user's browser ─► gateway      with the user's cookie, or on the user's own machine

A browser says where a request is from: in Sec-Fetch-Site, or at least in Origin. Pages cannot forge these headers.
Without authentication the gateway serves its machine alone, which a page reaches by the name of the page's host once
that resolves to 127.0.0.1 (DNS rebinding): so the header Host must name this machine. Pure.
"""

import re
from collections.abc import Collection
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import urlsplit

from roboco.gateway.problem import Problem, forbidden, invalid

HEALTH_PATHS: Final = frozenset({"/healthz", "/readyz"})
"""Paths that need no caller, and that the log leaves out."""
_HOST: Final = re.compile(r"([a-z0-9][a-z0-9._-]{0,253}|\[[0-9a-f:.]{2,45}\])(:[0-9]{0,5})?")
"""A name or address, and a port."""
SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})


def is_loopback(host: str) -> bool:
    """Return True if the host is this machine, as it sees itself."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def check_host(scope: Any, allowed: Collection[str], local_only: bool) -> None:
    """Raise Problem `forbidden` unless the header Host names the gateway.

    `allowed` are its names; if there are none, each well-formed name is allowed. With `local_only` the names of
    loopback are allowed, too, and requests from other machines are refused.
    """
    peer = (scope.get("client") or ("",))[0]
    if local_only and _is_remote(peer):
        raise forbidden("without authentication the gateway serves its own machine alone", "use a key")
    name = host_name(scope)
    if not name:
        raise invalid("the request needs one header Host with the name or address of the gateway")
    if not local_only and not allowed:
        return
    if name not in allowed and not (local_only and is_loopback(name)):
        raise forbidden("the header Host does not name this gateway", "an operator sets ROBOCO_GATEWAY_ALLOWED_HOSTS")


def check_origin(scope: Any, allowed: Collection[str] = (), needs_proof: bool = False) -> None:
    """Raise Problem `forbidden` if a page of another origin than `allowed` or the gateway's own causes the request.

    A request without such headers is from a program, not from a browser. With `needs_proof` it is refused, unless it
    only reads: the cookie of a browser is sent by browsers alone.
    """
    site, origin = _value(scope, b"sec-fetch-site"), _value(scope, b"origin")
    is_safe = scope["method"] in SAFE_METHODS
    if origin and origin in allowed:
        return
    if site in ("same-origin", "none"):
        return  # the browser compares better than this process, which may be behind a proxy that changes Host
    if site and is_safe and _value(scope, b"sec-fetch-mode") == "navigate":
        return  # a link that the user follows: the page that has it cannot read the answer
    if site or (origin and not is_same_host(origin, _value(scope, b"host"))):
        raise _cross_site()
    if not origin and needs_proof and not is_safe:
        raise _cross_site()


def path_of(scope: Any) -> str:
    """Return the path of a request below the place where the application is mounted."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", ""))


def host_name(scope: Any) -> str:
    """Return the name in the header Host, without the port, or "" unless there is one header, which is well-formed."""
    hosts = [value for name, value in scope["headers"] if name == b"host"]
    found = _HOST.fullmatch(hosts[0].decode("latin-1").lower()) if len(hosts) == 1 else None
    return found[1] if found else ""


def is_same_host(origin: str, host: str) -> bool:
    """Return True if the origin is a page of this host and port. A standard port may be left out."""
    try:
        parts = urlsplit(origin.lower())
    except ValueError:
        return False
    if parts.scheme not in ("http", "https") or not parts.netloc:
        return False
    standard = ":443" if parts.scheme == "https" else ":80"
    return parts.netloc.removesuffix(standard) == host.lower().removesuffix(standard)


def _value(scope: Any, name: bytes) -> str:
    """Return the value of a header, or "" if there is none. Two values are one that matches nothing."""
    return ", ".join(value.decode("latin-1") for key, value in scope["headers"] if key == name)


def _is_remote(peer: str) -> bool:
    """Return True if the peer is another machine. A local socket has no address."""
    try:
        return not ip_address(peer).is_loopback
    except ValueError:
        return False


def _cross_site() -> Problem:
    return forbidden(
        "the request is from a web page of another origin",
        "use a key in the header Authorization; an operator sets ROBOCO_GATEWAY_CORS_ORIGINS",
    )
