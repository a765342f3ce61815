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
# A message counts as sent once the broker has confirmed it: a quorum queue has it on most of its disks then.
_AMQP_OPTIONS: Final[Mapping[str, Any]] = MappingProxyType({"confirm_publish": True, "write_timeout": 5})
# What is put back because a server does not answer comes again until it does, and is counted by us: RabbitMQ 4 would
# drop it after 20 times. What a worker holds back behind a long call must outlast that: RabbitMQ says 30 minutes
# (before 3.12 only its configuration can say otherwise). The latter in milliseconds.
_AMQP_QUEUE: Final[Mapping[str, Any]] = MappingProxyType(
    {"x-queue-type": "quorum", "x-delivery-limit": 1_000_000, "x-consumer-timeout": 24 * 3600 * 1000}
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
    if is_amqp(url):
        return {
            "broker_url": url.partition("?")[0] if scheme == "amqps" else url,
            "broker_use_ssl": _amqp_tls(url) if scheme == "amqps" else None,
            "broker_transport_options": dict(_AMQP_OPTIONS),
            "broker_heartbeat": 20,
        }
    return {"broker_url": _verified(url) if scheme == "rediss" else url} | {
        "broker_transport_options": dict(TRANSPORT_OPTIONS)
    }


def queue_arguments(url: str) -> dict[str, Any] | None:
    """What queues are declared with on this broker."""
    return dict(_AMQP_QUEUE) if is_amqp(url) else None


def is_amqp(url: str) -> bool:
    """Whether the broker speaks AMQP, as RabbitMQ does."""
    return urlsplit(url).scheme in ("amqp", "amqps", "pyamqp")


def _amqp_tls(url: str) -> dict[str, Any]:
    """The options of the URL by the names that py-amqp gives them; with no host name it would check none."""
    query = _checked(url)
    options: dict[str, Any] = {"cert_reqs": _CHECKS[query["ssl_cert_reqs"]], "server_hostname": urlsplit(url).hostname}
    given = {name: query.get(f"ssl_{name}") for name in ("ca_certs", "certfile", "keyfile")}
    return options | {name: value for name, value in given.items() if value}


def _verified(url: str) -> str:
    """The URL with what kombu else leaves out: without any option it does not check who answers."""
    return urlunsplit(urlsplit(url)._replace(query=urlencode(_checked(url))))


def _checked(url: str) -> dict[str, str]:
    """The options of the URL, with how it checks who answers."""
    query = dict(parse_qsl(urlsplit(url).query))
    if query.setdefault("ssl_cert_reqs", "required") not in _CHECKS:
        possible = ", ".join(_CHECKS)
        raise UsageError(f"the broker's URL has ssl_cert_reqs={query['ssl_cert_reqs']!r}, possible are {possible}")
    return query
