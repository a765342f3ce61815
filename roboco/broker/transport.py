"""transport: kombu's transports with a check of each message before kombu parses it.

    list ── receiving.py ┐                   ┌─► kombu's Message ─► GuardedConsumer
    channel ─────────────┼─► read strictly ──┤
    unacked hash ────────┘  (envelope.py)    └─► RefusedMessage ─► dead letter

Kombu notes each received message in Redis until it is acknowledged: two transactions, a tenth of the processor time of
an agents process. Messages of REPEATED_TASKS are not noted. A worker that ends, or loses its connection, returns them
to their queue. If it dies, or the broker does not answer then, the sweeper repeats them at its next check of the task:
`redelivery_delay` after they were sent, or, because its delays double, within as long again as they had waited, 300 s
at most. For messages that waited longer than 20 s, the visibility timeout could be sooner.

The channel over Redis also has one client instead of one for each command: creating them was a tenth of the samples of
an agents process under load (redis-py 8.1: 0.06 ms each). Clients have no state but their connection pool, and threads
may share them.
"""

import json
import logging
import time
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import Any, Final

from kombu import transport
from kombu.transport import pyamqp, redis, virtual
from kombu.utils.encoding import bytes_to_str
from redis import exceptions as redis_exceptions

from roboco.broker.broker_error import ScriptsMissing
from roboco.broker.envelope import (
    HeldMessage,
    RefusedMessage,
    read_broadcast,
    read_held,
    serialize,
)
from roboco.broker.message_validation import content_error
from roboco.broker.names import TOOL_TASK, TURN_TASK
from roboco.broker.receiving import ReceivingChannel

REPEATED_TASKS: Final = (TURN_TASK, TOOL_TASK)
"""Celery tasks whose work the task store records, and whose lost messages the sweeper therefore repeats.

Not a set: a header from outside may be a list, which has no hash.
"""

logger = logging.getLogger(__name__)


class QoS(redis.QoS):
    """Kombu's list of messages that this worker holds: in Redis, and those of REPEATED_TASKS only in memory."""

    channel: Any
    _delivered: Any
    _remove_from_indices: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._only_here: set[str] = set()

    def append(self, message: Any, delivery_tag: str) -> None:
        """Hold a message that was received."""
        if message.headers.get("task") in REPEATED_TASKS:
            self._only_here.add(delivery_tag)
            virtual.QoS.append(self, message, delivery_tag)
        else:
            super().append(message, delivery_tag)

    def ack(self, delivery_tag: str) -> None:
        """Release a message for good. Any thread may call this."""
        if delivery_tag in self._only_here:
            self._only_here.discard(delivery_tag)
            virtual.QoS.ack(self, delivery_tag)
        else:
            super().ack(delivery_tag)

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        """Release a message, and return it to its queue with `requeue`."""
        if not requeue and delivery_tag in self._only_here:
            self.ack(delivery_tag)
        else:
            super().reject(delivery_tag, requeue)

    def restore_by_tag(self, tag: Any, client: Any = None, leftmost: bool = False) -> None:
        """Return a message to its queue. If it cannot be read, store it as a dead letter instead."""
        if tag in self._only_here:
            with self.channel.conn_or_acquire(client) as connected:
                message = self._delivered[tag]
                self._push_back(message._raw, message.delivery_info["routing_key"], connected, leftmost)
            self._only_here.discard(tag)
            return

        def give_back(pipe: Any) -> None:
            raw = pipe.hget(self.unacked_key, tag)
            pipe.multi()
            if raw is None or self._restore_or_store(raw, pipe, leftmost):
                self._remove_from_indices(tag, pipe)
            else:  # try again later, so that it does not block the restoration of others
                pipe.zadd(self.unacked_index_key, {tag: time.time()}, xx=True)

        with self.channel.conn_or_acquire(client) as connected:
            connected.transaction(give_back, self.unacked_key)

    def _restore_or_store(self, raw: bytes, pipe: Any, leftmost: bool) -> bool:
        """Return True if the message has returned to its queue or is stored as a dead letter."""
        match read_held(raw):
            case HeldMessage(message, queue):
                self._push_back(message, queue, pipe, leftmost)
                return True
            case RefusedMessage() as refused:
                return bool(self.channel.store_held(raw, refused))

    def _push_back(self, message: dict[str, Any], queue: str, client: Any, leftmost: bool) -> None:
        message["headers"]["redelivered"] = True
        message["properties"]["delivery_info"]["redelivered"] = True
        key = self.channel._q_for_pri(queue, message["properties"].get("priority") or 0)
        (client.lpush if leftmost else client.rpush)(key, serialize(message))


class GuardedChannel(ReceivingChannel):
    """The part of a channel over Redis that checks incoming messages, and reuses its client."""

    _reused_client: Any = None

    def _create_client(self, asynchronous: bool = False) -> Any:
        make: Any = super()._create_client  # type: ignore[misc]  # a mixin
        if asynchronous:  # kombu reuses those itself
            return make(asynchronous=True)
        own: Any = self
        client = self._reused_client
        if client is None or client.connection_pool is not own.pool:
            client = self._reused_client = make()
            client.script_load = partial(_load_script, client.script_load)
        return client

    @cached_property
    def subclient(self) -> Any:
        """The connection that receives messages of remote control."""
        subclient: Any = self._create_client(asynchronous=True).pubsub()
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
        read = (
            read_broadcast(raw, exchange)
            if isinstance(raw, bytes)
            else RefusedMessage(f"is no message but {raw!r:.80}")
        )
        if isinstance(read, RefusedMessage):
            logger.warning("dropped a message that was published on channel %r: %s", name, read.reason)
            return [*start, channel, b""]
        return [*start, channel, json.dumps(read)]


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

    QoS = QoS


class Transport(redis.Transport):
    """Kombu's transport over Redis."""

    Channel = Channel


class SentinelChannel(GuardedChannel, redis.SentinelChannel):
    """Kombu's channel over the primary that Sentinels name."""

    QoS = QoS


class SentinelTransport(redis.SentinelTransport):
    """Kombu's transport over the primary that Sentinels name."""

    Channel = SentinelChannel


class AmqpMessage(pyamqp.Message):
    """Kombu's message without decompression: a compressed one is an error, with its body as it arrived."""

    def __init__(self, msg: Any, channel: Any = None, **options: Any) -> None:
        headers = msg.properties.get("application_headers") or {}
        if isinstance(headers, Mapping) and headers.get("compression"):
            error = ValueError(content_error("application/json", None, headers))
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
    """Have all further connections of this process to brokers use these transports."""
    of_kombu = vars(transport)
    for scheme, kind in _GUARDED.items():
        of_kombu["TRANSPORT_ALIASES"][scheme] = f"{__name__}:{kind.__name__}"
        of_kombu["_transport_cache"].pop(scheme, None)  # the transports that this process has used before
