"""What each kind of broker needs: how its connections are secured, and how long they may be silent."""

import ssl
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from roboco.errors import UsageError

# The same for every application on the broker's database, because the shortest visibility timeout wins there.
# Without the socket timeouts a half-open connection blocks workers and producers for ever. All times in seconds.
TRANSPORT_OPTIONS: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "visibility_timeout": 30,
        # A dead worker's messages come back after this timeout plus interval times throttle, and the mutex if it
        # died while it gave back those of another.
        "unacked_restore_interval": 2,
        "unacked_restore_throttle": 1,
        "unacked_mutex_expire": 15,
        # Names of our own: on a database that others share, their messages keep their own visibility timeout.
        "unacked_key": "roboco.unacked",
        "unacked_index_key": "roboco.unacked_index",
        "unacked_mutex_key": "roboco.unacked_mutex",
        "socket_timeout": 5,
        "socket_connect_timeout": 5,
        "socket_keepalive": True,
        "health_check_interval": 5,
        "max_connections": 50,
        "client_name": "roboco",
        # each is a list of its own; what other services send has none, and goes first
        "priority_steps": [0, 3, 6],
    }
)
_CHECKS: Final = {"required": ssl.CERT_REQUIRED, "optional": ssl.CERT_OPTIONAL, "none": ssl.CERT_NONE}


def broker_settings(url: str) -> dict[str, Any]:
    """The settings of a Celery application on this broker; UsageError if none can be there.

    With TLS a server's certificate is checked unless the URL says `ssl_cert_reqs=none`.
    """
    scheme = urlsplit(url).scheme
    if scheme in ("redis+cluster", "rediss+cluster"):
        raise UsageError(
            "Celery has no Redis Cluster as a broker: set ROBOCO_BROKER_URL to a single Redis, a Sentinel or RabbitMQ"
        )
    return {"broker_url": _verified(url) if scheme == "rediss" else url} | {
        "broker_transport_options": dict(TRANSPORT_OPTIONS)
    }


def _verified(url: str) -> str:
    """The URL with what kombu else leaves out: without any option it does not check who answers."""
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query))
    if query.setdefault("ssl_cert_reqs", "required") not in _CHECKS:
        possible = ", ".join(_CHECKS)
        raise UsageError(f"the broker's URL has ssl_cert_reqs={query['ssl_cert_reqs']!r}, possible are {possible}")
    return urlunsplit(parts._replace(query=urlencode(query)))
