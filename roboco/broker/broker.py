"""broker: the settings of each kind of broker: TLS, time-outs, and redelivery of unacknowledged messages."""

import ssl
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from celery import VERSION

from roboco.errors import UsageError

PRIORITIES: Final = tuple(range(10))
"""The priorities of a message on Redis, where kombu keeps a list for each of them.

Workers read all, because a producer with other `priority_steps` than these uses some of the same lists.
"""

SEPARATOR: Final = "\x06\x16"
"""The separator of queue and priority in the names of these lists, which kombu calls `sep`."""

# They are the same for every application on the broker's database, because the shortest visibility timeout wins there.
# Without the socket timeouts a half-open connection blocks workers and producers for ever. All times are in seconds.
TRANSPORT_OPTIONS: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "visibility_timeout": 30,
        # The messages of a dead worker are redelivered after this timeout plus interval times throttle, and the
        # expiry of the mutex if the worker died while it restored the messages of another one.
        "unacked_restore_interval": 2,
        "unacked_restore_throttle": 1,
        "unacked_mutex_expire": 15,
        # Other names than kombu's: on a shared database, messages of other services keep their visibility timeout.
        "unacked_key": "roboco.unacked",
        "unacked_index_key": "roboco.unacked_index",
        "unacked_mutex_key": "roboco.unacked_mutex",
        "socket_timeout": 5,
        "socket_connect_timeout": 5,
        "socket_keepalive": True,
        "health_check_interval": 5,
        "max_connections": 50,
        "client_name": "roboco",
        "priority_steps": list(PRIORITIES),  # messages of other services have no priority, and go first
    }
)
# A message counts as sent once the broker has confirmed it: by then a quorum queue has it on most of its disks.
_AMQP_OPTIONS: Final[Mapping[str, Any]] = MappingProxyType({"confirm_publish": True, "write_timeout": 5})
# A message that is requeued because a server does not answer is redelivered until one does, and Roboco counts its
# attempts: RabbitMQ 4 would drop it after 20 deliveries. The consumer timeout, in milliseconds, must exceed the longest
# call behind which a worker holds a message: the default is 30 minutes (before 3.12 only RabbitMQ's configuration can
# change it).
_AMQP_QUEUE_ARGUMENTS: Final[Mapping[str, Any]] = MappingProxyType(
    {"x-queue-type": "quorum", "x-delivery-limit": 1_000_000, "x-consumer-timeout": 24 * 3600 * 1000}
)
_TRANSPORTS: Final = {
    "redis": "roboco.broker.transport:Transport",
    "rediss": "roboco.broker.transport:Transport",
    "sentinel": "roboco.broker.transport:SentinelTransport",
}
"""The transports that reuse their client and its connections."""
_CERT_REQS: Final = {"required": ssl.CERT_REQUIRED, "optional": ssl.CERT_OPTIONAL, "none": ssl.CERT_NONE}


def broker_settings(url: str) -> dict[str, Any]:
    """Return the settings of a Celery application on this broker; UsageError if Celery does not support the broker.

    With TLS, the server's certificate is checked unless the URL has `ssl_cert_reqs=none`.
    """
    scheme = urlsplit(url).scheme
    if scheme in ("redis+cluster", "rediss+cluster"):
        raise UsageError(
            "Celery does not support a Redis Cluster as a broker: set ROBOCO_BROKER_URL to a single Redis, "
            "a Sentinel or RabbitMQ"
        )
    if is_amqp(url):
        return {
            "broker_url": url.partition("?")[0] if scheme == "amqps" else url,
            "broker_use_ssl": _amqp_tls(url) if scheme == "amqps" else None,
            "broker_transport_options": dict(_AMQP_OPTIONS),
            "broker_heartbeat": 20,
        }
    return {"broker_url": _with_verification(url) if scheme == "rediss" else url} | {
        "broker_transport_options": dict(TRANSPORT_OPTIONS)
    }


def producer_settings(url: str) -> dict[str, Any]:
    """Return further settings of an application that only sends: the transport, if it is one over Redis.

    Workers use these transports for all of their connections (`guard_transports`). In another process only Roboco's
    application does, and only with the releases of kombu whose methods they replace.
    """
    known = VERSION[:2] >= (5, 7)  # it requires the same kombu
    return {"broker_transport": _TRANSPORTS.get(urlsplit(url).scheme) if known else None}


def queue_arguments(url: str) -> dict[str, Any] | None:
    """Return the arguments with which queues are declared on this broker, or None if it needs none."""
    return dict(_AMQP_QUEUE_ARGUMENTS) if is_amqp(url) else None


def is_amqp(url: str) -> bool:
    """Return True if the broker speaks AMQP, as RabbitMQ does."""
    return urlsplit(url).scheme in ("amqp", "amqps", "pyamqp")


def _amqp_tls(url: str) -> dict[str, Any]:
    """Return the TLS options of the URL by py-amqp's names. Without `server_hostname` it would check no host name."""
    query = _tls_options(url)
    options: dict[str, Any] = {
        "cert_reqs": _CERT_REQS[query["ssl_cert_reqs"]],
        "server_hostname": urlsplit(url).hostname,
    }
    given = {name: query.get(f"ssl_{name}") for name in ("ca_certs", "certfile", "keyfile")}
    return options | {name: value for name, value in given.items() if value}


def _with_verification(url: str) -> str:
    """Return the URL with `ssl_cert_reqs`: without that option kombu does not check the server's certificate."""
    return urlunsplit(urlsplit(url)._replace(query=urlencode(_tls_options(url))))


def _tls_options(url: str) -> dict[str, str]:
    """Return the options of the URL with `ssl_cert_reqs`; UsageError if its value is unknown."""
    query = dict(parse_qsl(urlsplit(url).query))
    if query.setdefault("ssl_cert_reqs", "required") not in _CERT_REQS:
        possible = ", ".join(_CERT_REQS)
        raise UsageError(f"the broker's URL has ssl_cert_reqs={query['ssl_cert_reqs']!r}, possible are {possible}")
    return query
