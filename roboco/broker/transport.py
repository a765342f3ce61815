"""transport: kombu's transports with a check of each message before kombu parses it.

    list ── BRPOP ──► read_envelope ──► kombu's Message ──► GuardedConsumer ──► an unreadable one: dead letter
    channel ────────► read_broadcast ─► kombu's Message, or dropped

Kombu returns the messages of dead workers from the hash `roboco.unacked` to their queues, when a worker starts and now
and then. An entry that is no message is dropped, because it would stop kombu.

The channel over Redis also has one client instead of one for each command: creating them was a tenth of the samples of
an agents process under load (redis-py 8.1: 0.06 ms each). Clients have no state but their connection pool, and threads
may share them.
"""

import hashlib
import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property, partial
from typing import Any, Final

from kombu import transport
from kombu.transport import pyamqp, redis
from kombu.utils.encoding import bytes_to_str
from kombu.utils.uuid import uuid
from redis import exceptions as redis_exceptions

from roboco.broker.broker_error import ScriptsMissing
from roboco.broker.message_reader import UnreadableError, check_compression, read_broadcast, read_envelope

logger = logging.getLogger(__name__)


class GuardedQoS(redis.QoS):
    """Kombu's record of the messages that workers hold, which survives an entry that is no message."""

    channel: Any

    def restore_by_tag(self, tag: Any, client: Any = None, leftmost: bool = False) -> None:
        """Return the message with this tag to its queue. Drop an entry that is no message."""
        with self.channel.conn_or_acquire(client) as connection:
            raw = connection.hget(self.unacked_key, tag)
            if raw is not None and not _is_held_message(raw):
                connection.pipeline().zrem(self.unacked_index_key, tag).hdel(self.unacked_key, tag).execute()
                digest = hashlib.sha256(raw).hexdigest()
                logger.error(
                    "dropped an entry of %s that is no message: %d bytes, SHA-256 %s",
                    self.unacked_key,
                    len(raw),
                    digest,
                )
        super().restore_by_tag(tag, client, leftmost)


def _is_held_message(raw: bytes) -> bool:
    """Return True if kombu can return the entry to a queue: a message with headers and properties, and two names."""
    try:
        entry = json.loads(raw)
    except (ValueError, RecursionError):
        return False
    if not (isinstance(entry, list) and len(entry) == 3 and all(isinstance(name, str) for name in entry[1:])):
        return False
    message = entry[0]
    properties = message.get("properties") if isinstance(message, dict) else None
    delivery = properties.get("delivery_info") if isinstance(properties, dict) else None
    return isinstance(delivery, dict) and isinstance(message.get("headers"), dict)


class GuardedChannel:
    """The part of a channel over Redis that checks incoming messages, and reuses its client."""

    QoS: Any = GuardedQoS
    sep: str
    pool: Any
    _reused_client: Any = None

    @contextmanager
    def conn_or_acquire(self, client: Any = None) -> Iterator[Any]:
        """Yield the client, or the one of this channel, until kombu has given the channel other connections."""
        if client is None:
            client = self._reused_client
        if client is None or client.connection_pool is not self.pool:
            with super().conn_or_acquire() as client:  # type: ignore[misc]  # a mixin
                client.script_load = partial(_load_script, client.script_load)
            self._reused_client = client
        yield client

    @cached_property
    def client(self) -> Any:
        """The connection that receives messages of queues."""
        client: Any = super().client  # type: ignore[misc]  # a mixin
        client.parse_response = partial(self._check_received, client.parse_response)
        return client

    def _check_received(self, parse: Callable[..., Any], connection: Any, command: str, **options: Any) -> Any:
        """Return the answer to a command, with the message of a BRPOP in its checked form."""
        if command != "BRPOP":
            return parse(connection, command, **options)
        try:
            answer = parse(connection, command, **options)
        except Exception:
            connection.disconnect()  # it may lead to a replica, or have another user's rights
            raise
        if not answer:
            return answer
        key, raw = answer
        message = read_envelope(raw, bytes_to_str(key).rsplit(self.sep, 1)[0])
        # A sender may have used the tag of another message that a worker holds, and overwrite its entry.
        message["properties"]["delivery_tag"] = uuid()
        return key, json.dumps(message)

    @cached_property
    def subclient(self) -> Any:
        """The connection that receives messages of remote control."""
        subclient: Any = super().subclient  # type: ignore[misc]  # a mixin
        subclient.parse_response = partial(self._check_published, subclient.parse_response)
        return subclient

    def _check_published(self, parse: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Return the published message in its checked form, or an empty one if it is refused."""
        answer = parse(*arguments, **options)
        if not (isinstance(answer, list | tuple) and bytes_to_str(answer[0]).endswith("message")):
            return answer
        *start, channel, raw = answer
        name = bytes_to_str(channel)
        exchange = (name.partition(".")[2] if name.startswith("/") else name).partition("/")[0]
        try:
            return [*start, channel, json.dumps(read_broadcast(raw, exchange))]
        except UnreadableError as error:
            logger.warning("dropped a message that was published on channel %r: %s", name, error)
            return [*start, channel, b""]


def _load_script(load: Callable[[Any], Any], script: Any) -> Any:
    try:
        return load(script)
    except redis_exceptions.NoPermissionError as error:
        raise ScriptsMissing(
            "it does not hold kombu's scripts yet; a coordinator worker loads them when it starts and before each "
            "sweep: check that one runs"
        ) from error


class Channel(GuardedChannel, redis.Channel):
    """Kombu's channel over Redis."""


class Transport(redis.Transport):
    """Kombu's transport over Redis."""

    Channel = Channel


class SentinelChannel(GuardedChannel, redis.SentinelChannel):
    """Kombu's channel over the primary that Sentinels name."""


class SentinelTransport(redis.SentinelTransport):
    """Kombu's transport over the primary that Sentinels name."""

    Channel = SentinelChannel


class AmqpMessage(pyamqp.Message):
    """Kombu's message without decompression: a compressed one is an error, with its body as it arrived."""

    def __init__(self, msg: Any, channel: Any = None, **options: Any) -> None:
        headers = msg.properties.get("application_headers") or {}
        try:
            check_compression(headers)
        except UnreadableError as error:
            self.errors = [(ValueError, error, None)]
        super().__init__(msg, channel=channel, **options)


class AmqpChannel(pyamqp.Channel):
    """Kombu's channel over AMQP."""

    Message = AmqpMessage


class AmqpConnection(pyamqp.Connection):
    """Kombu's connection over AMQP."""

    Channel = AmqpChannel


class AmqpTransport(pyamqp.Transport):
    """Kombu's transport over AMQP."""

    Connection = AmqpConnection


class AmqpSslTransport(pyamqp.SSLTransport):
    """Kombu's transport over AMQP with TLS."""

    Connection = AmqpConnection


_GUARDED: Final = {
    "redis": Transport,
    "rediss": Transport,
    "sentinel": SentinelTransport,
    "amqp": AmqpTransport,
    "pyamqp": AmqpTransport,
    "amqps": AmqpSslTransport,
}


def guard_transports() -> None:
    """Have all connections of this process to brokers use these transports. Call it before the first one."""
    for scheme, kind in _GUARDED.items():
        transport.TRANSPORT_ALIASES[scheme] = f"{__name__}:{kind.__name__}"
