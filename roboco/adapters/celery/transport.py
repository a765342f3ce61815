"""transport: kombu's transports with a check of each message before kombu parses it.

    list ── BRPOP ──┐                    ┌─► kombu's Message ─► GuardedConsumer
    channel ────────┼─► read strictly ───┤
    unacked hash ───┘   (envelope.py)    └─► Refused ─► dead letter

A popped message is in the memory of this process alone. If its dead letter cannot be stored, its record goes into the
hash of messages that workers hold. Kombu restores it after the visibility timeout, and it is stored then. If the broker
does not accept the record either, the log has the length, the digest and the reason of the lost message.

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
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property, partial
from typing import Any, Final

from kombu import transport
from kombu.transport import pyamqp, redis, virtual
from kombu.utils.encoding import bytes_to_str
from kombu.utils.json import dumps
from redis import Redis
from redis import exceptions as redis_exceptions
from redis.exceptions import RedisError

from roboco.adapters.celery.dead_letter import record_of_raw
from roboco.adapters.celery.envelope import (
    HeldMessage,
    RefusedMessage,
    read_broadcast,
    read_envelope,
    read_held,
    serialize,
)
from roboco.adapters.celery.message_validation import content_error
from roboco.adapters.celery.names import TOOL_TASK, TURN_TASK
from roboco.adapters.redis.direct_calls import LostConnectionError, direct_calls_of
from roboco.adapters.redis.scripts import refuses_writes
from roboco.domain.dead_letter import letter_id_of

REPEATED_TASKS: Final = (TURN_TASK, TOOL_TASK)
"""Celery tasks whose work the task store records, and whose lost messages the sweeper therefore repeats.

Not a set: a header from outside may be a list, which has no hash.
"""

StoreRecord = Callable[[dict[str, Any]], None]
"""Stores the record of a refused message, or raises."""

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


class ScriptsMissing(redis_exceptions.ConnectionError):
    """The broker does not hold kombu's scripts, and this worker may not load them.

    Kombu and Celery treat it like a broker that does not answer: they try again.
    """


class WritesRefused(redis_exceptions.ConnectionError):
    """The broker refuses writes for now: its disk is full, or it lacks replicas. A worker waits and tries again."""


@contextmanager
def counting_as_lost() -> Iterator[None]:
    """Raise WritesRefused in place of a refusal to write, with which Celery would end the worker."""
    try:
        yield
    except redis_exceptions.ResponseError as error:
        if refuses_writes(error):
            raise WritesRefused(str(error)) from error
        raise


class GuardedChannel:
    """The part of a channel over Redis that checks incoming messages, and reuses its client."""

    connection: Any
    sep: str
    _reused_client: Any = None

    def _create_client(self, asynchronous: bool = False) -> Any:
        make: Any = super()._create_client  # type: ignore[misc]  # a mixin
        if asynchronous:  # kombu reuses those itself
            asynchronous_client = make(asynchronous=True)
            asynchronous_client.parse_response = partial(self._check_answer, asynchronous_client.parse_response)
            return asynchronous_client
        own: Any = self
        asynchronous_client = self._reused_client
        if asynchronous_client is None or asynchronous_client.connection_pool is not own.pool:
            asynchronous_client = self._reused_client = make()
            asynchronous_client.script_load = partial(_load_script, asynchronous_client.script_load)
        return asynchronous_client

    def _put(self, queue: str, message: dict[str, Any], **options: Any) -> None:
        """Send a message to a queue: over a kept connection, unless it is part of a batch or its queue expires."""
        own: Any = self
        put: Any = super()._put  # type: ignore[misc]  # a mixin
        with own.conn_or_acquire() as client:
            if options or queue in own._expires or type(client) is not Redis:
                put(queue, message, **options)
                return
            key = own._q_for_pri(queue, own._get_message_priority(message, reverse=False))
            try:
                direct_calls_of(client).call("LPUSH", key, dumps(message))
            except LostConnectionError:
                put(queue, message)  # the client retries as it is configured

    def _put_fanout(self, exchange: str, message: dict[str, Any], routing_key: str, **options: Any) -> None:
        """Publish a message, such as an event: over a kept connection, unless it is part of a batch."""
        own: Any = self
        put: Any = super()._put_fanout  # type: ignore[misc]  # a mixin
        with own.conn_or_acquire() as client:
            if options.get("_publish_batch") is not None or type(client) is not Redis:
                put(exchange, message, routing_key, **options)
                return
            payload = dumps(message)
            try:
                for topic in own._get_publish_topics(exchange, routing_key):
                    direct_calls_of(client).call("PUBLISH", topic, payload)
            except LostConnectionError:
                put(exchange, message, routing_key)  # the client retries as it is configured

    @cached_property
    def subclient(self) -> Any:
        """The connection that receives messages of remote control."""
        subclient: Any = self._create_client(asynchronous=True).pubsub()
        subclient.parse_response = partial(self._check_published, subclient.parse_response)
        return subclient

    def _check_answer(self, parse: Callable[..., Any], connection: Any, command: str, **options: Any) -> Any:
        """Return the answer of Redis. Of a popped message return the checked form, or None if it is refused."""
        with counting_as_lost():
            answer = parse(connection, command, **options)
        if command != "BRPOP" or not answer:
            return answer
        key, raw = answer
        queue = bytes_to_str(key).rsplit(self.sep, 1)[0]
        match read_envelope(raw, queue):
            case RefusedMessage() as refused:
                own: Any = self
                own._queue_cycle.rotate(queue)  # as after any message: the other queues are next
                self._refuse(raw, queue, refused)
                return None
            case message:
                # A sender may have used the tag of another message that a worker holds: its entry would be overwritten.
                message["properties"]["delivery_tag"] = self._next_delivery_tag()  # type: ignore[attr-defined]
                return key, serialize(message)

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

    def _refuse(self, raw: bytes, queue: str, refused: RefusedMessage) -> None:
        record = record_of_raw(raw, queue, refused.reason, refused.headers)
        if not self._store_record(record):
            self._hold_record(record)

    def _store_record(self, record: dict[str, Any]) -> bool:
        store: StoreRecord | None = getattr(self.connection, "refuse", None)
        try:
            if store is not None:
                store(record)
        except Exception:
            logger.exception("cannot store a dead letter of queue %r: %s", record["queue"], record["reason"])
            return False
        return True

    def _hold_record(self, record: dict[str, Any]) -> None:
        """Store the record among the messages that workers hold. A release without this guard drops such a record."""
        note = json.dumps([json.dumps(record), "", record["queue"]])
        own: Any = self
        try:
            with own.conn_or_acquire() as client, client.pipeline() as pipe:
                pipe.hset(own.unacked_key, record["letter_id"], note)
                pipe.zadd(own.unacked_index_key, {record["letter_id"]: time.time()})
                pipe.execute()
        except (RedisError, OSError):
            facts = (record["size"], record["queue"], record["digest"], record["reason"])
            logger.exception("lost an unreadable message of %s bytes of queue %r (SHA-256 %s): %s", *facts)

    def store_held(self, raw: bytes, refused: RefusedMessage) -> bool:
        """Store a dead letter for an unreadable entry of the hash. Return True if it is stored."""
        return self._store_record(read_held_record(raw) or record_of_raw(raw, "", refused.reason, refused.headers))


def _load_script(load: Callable[[Any], Any], script: Any) -> Any:
    try:
        return load(script)
    except redis_exceptions.NoPermissionError as error:
        raise ScriptsMissing(
            "it does not hold kombu's scripts yet; a coordinator worker loads them when it starts and before each "
            "sweep: check that one runs"
        ) from error


def read_held_record(raw: bytes) -> dict[str, Any] | None:
    """Return the record that `_hold_record` stored, rebuilt because any producer may write one; else None."""
    if len(raw) > MAX_HELD_RECORD_BYTES:
        return None
    try:
        note, _, queue = json.loads(raw)
        record = json.loads(note)
        reason, headers, body, size, digest = (record[name] for name in _RECORD_FIELDS)
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    match reason, headers, body, size, digest, queue:
        case str(), dict(), str(), int(), str(), str() if len(digest) == len(_NO_DIGEST):
            made = record_of_raw(body.encode("utf-8", "replace"), queue, reason, headers)
            return made | {"size": size, "digest": ascii(digest)[1:-1], "letter_id": letter_id_of(queue, digest)}
        case _:
            return None


MAX_HELD_RECORD_BYTES: Final = 1024 * 1024
"""Bytes of a stored record at most: it has less than 64 K characters, and JSON in JSON takes up to 14 bytes each."""
_RECORD_FIELDS: Final = ("reason", "headers", "body", "size", "digest")
_NO_DIGEST: Final = "0" * 64


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
