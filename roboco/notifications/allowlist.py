"""The webhooks that the operator of a worker allows. A caller can name no other address and use no other secret."""

import ipaddress
import socket
from collections.abc import Mapping
from urllib.parse import urlsplit

from roboco.domain.notification import NotifyTarget
from roboco.domain.url import covers
from roboco.errors import Forbidden, TransientError, UsageError

DEFAULT_PORTS = {"http": 80, "https": 443}
IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
IpNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network


def check_webhook(target: NotifyTarget, allowed: tuple[str, ...], variables: tuple[str, ...]) -> str:
    """Return the webhook's URL. Raise UsageError unless an entry covers it and its secret, if any, may be used."""
    url, variable = target.webhook or "", target.secret_env or ""
    if not any(covers(entry, url) for entry in allowed):
        raise Forbidden(
            f"webhook {target.label!r} is not allowed on this worker: name its address, or the beginning of it, in "
            "webhooks of ROBOCO_ALLOWLIST to allow it"
        )
    if target.secret_env is not None and variable not in variables:
        raise Forbidden(
            f"the variable {variable} may not be used on this worker: name it in webhook_env of ROBOCO_ALLOWLIST"
        )
    return url


def secret_of(variable: str, environment: Mapping[str, str]) -> str:
    """Return the secret in the variable. Raise UsageError if the variable is not set."""
    secret = environment.get(variable, "")
    if not secret:
        raise UsageError(f"the variable {variable}, which holds a webhook's secret, is not set on this worker")
    return secret


def allowed_address(host: str, port: int, allowed: tuple[str, ...]) -> str:
    """Return an allowed address of the host: a public one, or one that the operator lists.

    The operator lists a private address as a network ("10.0.0.0/8"), or as the host of an entry. Raise UsageError if
    the host has other addresses only, so that an attacker gains nothing by changing the DNS entry of a name. Raise
    TransientError if the host is not found.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise TransientError(f"host {host!r} is not found: {error}") from error
    addresses = [ipaddress.ip_address(str(one[4][0]).partition("%")[0]) for one in found]
    networks = [network for entry in allowed if (network := _network(entry)) is not None]
    for address in addresses:
        if _is_public(address) or any(address in network for network in networks):
            return str(address)
    raise Forbidden(
        f"host {host!r} is at {addresses[0]}, which is no public address: name its network in webhooks of "
        "ROBOCO_ALLOWLIST to allow it"
    )


_NOT_PUBLIC = tuple(
    ipaddress.ip_network(network)
    for network in (
        "192.0.0.0/24",  # protocol assignments, some of which Python counts as public
        "192.88.99.0/24",  # relays of 6to4
        "100.64.0.0/10",  # shared by the customers of a carrier
        "::/96",  # IPv4-compatible
        "64:ff9b::/96",  # NAT64, with any IPv4 address in it
        "64:ff9b:1::/48",
        "100::/64",  # discarded
        "2001::/23",  # protocol assignments, Teredo among them
        "2001:db8::/32",
        "2002::/16",  # 6to4, with any IPv4 address in it
        "3fff::/20",
        "5f00::/16",
        "fec0::/10",  # site-local
    )
)
"""Networks that are private, contain other addresses or reach nothing, even if `ipaddress` calls them global."""


def _is_public(address: IpAddress) -> bool:
    inner = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    known = inner or address
    if any(known in network for network in _NOT_PUBLIC):
        return False
    return known.is_global and not known.is_multicast and not known.is_reserved


def _network(entry: str) -> IpNetwork | None:
    host = urlsplit(entry).hostname if "://" in entry else entry
    try:
        return ipaddress.ip_network(host or "")
    except ValueError:
        return None
