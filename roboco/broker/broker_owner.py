"""broker_owner: the deployment whose messages a broker carries.

The names of queues are fixed, because other services send by them. So two deployments on one database of Redis, or on
one virtual host of RabbitMQ, would take each other's messages. A broker therefore records its deployment: in a key of
Redis, or in the argument of an exchange of RabbitMQ, which routes nothing. A worker of another deployment does not
start, and a client of another one does not submit. The record has no time to live: a deployment keeps its broker while
all of its workers restart.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from amqp.exceptions import AccessRefused, NotFound, PreconditionFailed
from celery import Celery
from redis.exceptions import NoPermissionError

from roboco.broker.broker_error import translating_errors
from roboco.domain.url import strip_credentials
from roboco.errors import TransientError, UsageError

OWNER: Final = "roboco.owner"
"""The key, or the exchange."""
_ARGUMENT: Final = "alternate-exchange"
"""The argument that RabbitMQ compares when an exchange is declared again. No such exchange exists."""
_CURRENT: Final = re.compile(rf"current is (?:the value )?'{re.escape(OWNER)}\.([^']+)\.(\w+)'")


class ForeignBroker(UsageError):
    """The broker carries the messages of another deployment."""


@dataclass(frozen=True)
class Deployment:
    """A deployment: its ROBOCO_PREFIX and the id of its workspace."""

    prefix: str
    workspace_id: str

    def __str__(self) -> str:
        return f"ROBOCO_PREFIX={self.prefix!r}, workspace {self.workspace_id}"


def claim_broker(app: Celery, own: Deployment, earlier: Deployment | None = None) -> None:
    """Record that the broker carries the messages of this deployment, in place of an `earlier` form of the same.

    Raise ForeignBroker if another one is recorded, and TransientError if the broker does not answer or its user may
    not read the record.
    """
    with translating_errors("the record of its deployment"), app.connection_for_write() as connection:
        found = _record_of(connection)
        owner = found.claim(own)
        if owner != own and owner == earlier:
            found.remove()
            owner = found.claim(own)
    if owner != own:
        raise _foreign_error(app, own, owner)


def check_broker_owner(app: Celery, own: Callable[[], Deployment], earlier: Deployment | None = None) -> None:
    """Raise ForeignBroker if another deployment is recorded, or TransientError if the broker does not answer.

    A user of the broker without the right to read the record may pass. `own` is called only if there is a record.
    """
    owner = read_owner(app, own)
    if owner is not None and owner not in (own(), earlier):
        raise _foreign_error(app, own(), owner)


def read_owner(app: Celery, own: Callable[[], Deployment]) -> Deployment | None:
    """Return the recorded deployment, or None if there is none or the user of the broker may not read it."""
    try:
        with translating_errors("the record of its deployment"), app.connection_for_write() as connection:
            return _record_of(connection).read(own)
    except TransientError as error:
        if isinstance(error.__cause__, NoPermissionError | AccessRefused):
            return None
        raise


class _RedisRecord:
    def __init__(self, connection: Any) -> None:
        self._client = connection.default_channel.client

    def claim(self, own: Deployment) -> Deployment | None:
        self._client.set(OWNER, f"{own.prefix} {own.workspace_id}", nx=True)
        return self.read(lambda: own)

    def read(self, _: Callable[[], Deployment]) -> Deployment | None:
        found = self._client.get(OWNER)
        if found is None:
            return None
        prefix, _, workspace_id = found.decode("utf-8", "replace").partition(" ")
        return Deployment(prefix, workspace_id)

    def remove(self) -> None:
        self._client.delete(OWNER)


class _RabbitRecord:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def claim(self, own: Deployment) -> Deployment | None:
        arguments = {_ARGUMENT: f"{OWNER}.{own.prefix}.{own.workspace_id}"}
        try:
            with self._connection.channel() as channel:  # RabbitMQ closes it if the declaration differs
                channel.exchange_declare(OWNER, "direct", durable=True, auto_delete=False, arguments=arguments)
        except PreconditionFailed as error:
            current = _CURRENT.search(str(error))
            if current is None:
                raise
            return Deployment(*current.groups())
        return own

    def read(self, own: Callable[[], Deployment]) -> Deployment | None:
        try:
            with self._connection.channel() as channel:
                channel.exchange_declare(OWNER, "direct", passive=True)
        except NotFound:
            return None
        return self.claim(own())

    def remove(self) -> None:
        with self._connection.channel() as channel:
            channel.exchange_delete(OWNER)


def _record_of(connection: Any) -> _RedisRecord | _RabbitRecord:
    connection.ensure_connection(max_retries=1, interval_start=0)
    return _RedisRecord(connection) if connection.transport.driver_type == "redis" else _RabbitRecord(connection)


def _foreign_error(app: Celery, own: Deployment, owner: Deployment | None) -> ForeignBroker:
    on_redis = str(app.conf.broker_url).startswith(("redis", "sentinel"))
    other = (
        "database of Redis, such as redis://HOST:PORT/1" if on_redis else "virtual host, such as amqp://HOST/staging"
    )
    return ForeignBroker(
        f"the broker {strip_credentials(str(app.conf.broker_url))} carries the messages of another deployment "
        f"({owner}); this one has {own}. The names of queues are fixed, so two deployments on one broker would take "
        f"each other's messages: name another {other} in ROBOCO_BROKER_URL of this one. If the other deployment is "
        f"gone for good, delete the {'key' if on_redis else 'exchange'} {OWNER!r} of the broker"
    )
