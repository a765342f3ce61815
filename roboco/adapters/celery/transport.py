"""Kombu's transports, guarded: what a producer wrote is checked before kombu makes a message of it.

    list ── BRPOP ──┐                    ┌─► kombu's Message ─► GuardedConsumer
    channel ────────┼─► read strictly ───┤
    unacked hash ───┘   (envelope.py)    └─► Refused ─► dead letter

What was popped is in the memory of this process alone. If its dead letter cannot be stored, a note of it goes into the
hash of messages that workers hold, from which it comes back after the visibility timeout, to be stored then. If the
broker does not take that note either, the log names what is lost: its length, its digest and the reason.

The channel over Redis also has one client instead of one for each command: to make them was a tenth of the samples of
an agents process under load (redis-py 8.1: 0.06 ms each). Clients keep no state but their pool of connections, and may
be shared by threads.
"""

import json
import logging
import time
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import Any, Final

from kombu import transport
from kombu.transport import pyamqp, redis
from kombu.utils.encoding import bytes_to_str
from redis import exceptions as redis_exceptions
from redis.exceptions import RedisError

from roboco.adapters.celery.dead_letter import record_of_raw
from roboco.adapters.celery.envelope import Held, Refused, read_broadcast, read_envelope, read_held, written
from roboco.adapters.celery.validation_error import content_flaw
from roboco.domain.dead_letter import letter_id_of

Refuse = Callable[[dict[str, Any]], None]
"""Stores the record of a message that is refused; raises if it cannot."""

logger = logging.getLogger(__name__)


class QoS(redis.QoS):
    """Kombu's list of messages that this worker holds, in Redis."""

    channel: Any
    _remove_from_indices: Any

    def restore_by_tag(self, tag: Any, client: Any = None, leftmost: bool = False) -> None:
        """Give a message back to its queue; what cannot be read becomes a dead letter instead."""

        def give_back(pipe: Any) -> None:
            raw = pipe.hget(self.unacked_key, tag)
            pipe.multi()
            if raw is None or self._settle(raw, pipe, leftmost):
                self._remove_from_indices(tag, pipe)
            else:  # it must not stand in the way of others that come back
                pipe.zadd(self.unacked_index_key, {tag: time.time()}, xx=True)

        with self.channel.conn_or_acquire(client) as connected:
            connected.transaction(give_back, self.unacked_key)

    def _settle(self, raw: bytes, pipe: Any, leftmost: bool) -> bool:
        """Whether the message went back, or was stored as a dead letter."""
        match read_held(raw):
            case Held(message, queue):
                message["headers"]["redelivered"] = True
                message["properties"]["delivery_info"]["redelivered"] = True
                key = self.channel._q_for_pri(queue, message["properties"].get("priority") or 0)
                (pipe.lpush if leftmost else pipe.rpush)(key, written(message))
                return True
            case Refused() as refused:
                return bool(self.channel.store_held(raw, refused))


class ScriptsMissing(redis_exceptions.ConnectionError):
    """The broker does not hold kombu's scripts, and this worker may not load them.

    Kombu and Celery treat it like a broker that does not answer: they try again.
    """


class GuardedChannel:
    """The part of a channel over Redis that checks what comes, and keeps its client."""

    connection: Any
    sep: str
    _kept: Any = None

    def _create_client(self, asynchronous: bool = False) -> Any:
        make: Any = super()._create_client  # type: ignore[misc]  # a mixin
        if asynchronous:  # kombu keeps those itself
            client = make(asynchronous=True)
            client.parse_response = partial(self._answer, client.parse_response)
            return client
        own: Any = self
        kept = self._kept
        if kept is None or kept.connection_pool is not own.pool:
            kept = self._kept = make()
            kept.script_load = partial(_load_script, kept.script_load)
        return kept

    @cached_property
    def subclient(self) -> Any:
        """The connection on which messages of remote control come."""
        subclient: Any = self._create_client(asynchronous=True).pubsub()
        subclient.parse_response = partial(self._published, subclient.parse_response)
        return subclient

    def _answer(self, parse: Callable[..., Any], connection: Any, command: str, **options: Any) -> Any:
        """The answer of Redis; of what was popped only a message that kombu may have, else none."""
        answer = parse(connection, command, **options)
        if command != "BRPOP" or not answer:
            return answer
        key, raw = answer
        queue = bytes_to_str(key).rsplit(self.sep, 1)[0]
        match read_envelope(raw, queue):
            case Refused() as refused:
                own: Any = self
                own._queue_cycle.rotate(queue)  # as after any message: other queues have their turn
                self._refuse(raw, queue, refused)
                return None
            case message:
                # A sender may have used the tag of another message: what a worker holds under it would be overwritten.
                message["properties"]["delivery_tag"] = self._next_delivery_tag()  # type: ignore[attr-defined]
                return key, written(message)

    def _published(self, parse: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """What was published, with nothing in place of what no worker may have."""
        answer = parse(*arguments, **options)
        if not (isinstance(answer, list | tuple) and bytes_to_str(answer[0]).endswith("message")):
            return answer
        *start, channel, raw = answer
        name = bytes_to_str(channel)
        exchange = (name.partition(".")[2] if name.startswith("/") else name).partition("/")[0]
        read = read_broadcast(raw, exchange) if isinstance(raw, bytes) else Refused(f"is no message but {raw!r:.80}")
        if isinstance(read, Refused):
            logger.warning("dropped what was published on channel %r: %s", name, read.reason)
            return [*start, channel, b""]
        return [*start, channel, json.dumps(read)]

    def _refuse(self, raw: bytes, queue: str, refused: Refused) -> None:
        record = record_of_raw(raw, queue, refused.reason, refused.headers)
        if not self._store(record):
            self._keep(record)

    def _store(self, record: dict[str, Any]) -> bool:
        store: Refuse | None = getattr(self.connection, "refuse", None)
        try:
            if store is not None:
                store(record)
        except Exception:
            logger.exception("cannot store a dead letter of queue %r: %s", record["queue"], record["reason"])
            return False
        return True

    def _keep(self, record: dict[str, Any]) -> None:
        """Note it among the messages that workers hold. A release without this guard drops such a note."""
        note = json.dumps([json.dumps(record), "", record["queue"]])
        own: Any = self
        try:
            with own.conn_or_acquire() as client, client.pipeline() as pipe:
                pipe.hset(own.unacked_key, record["letter_id"], note)
                pipe.zadd(own.unacked_index_key, {record["letter_id"]: time.time()})
                pipe.execute()
        except (RedisError, OSError):
            told = (record["size"], record["queue"], record["digest"], record["reason"])
            logger.exception("lost an unreadable message of %s bytes of queue %r (SHA-256 %s): %s", *told)

    def store_held(self, raw: bytes, refused: Refused) -> bool:
        """Store a dead letter of what is kept in the hash and cannot be read; whether that is done."""
        return self._store(noted(raw) or record_of_raw(raw, "", refused.reason, refused.headers))


def _load_script(load: Callable[[Any], Any], script: Any) -> Any:
    try:
        return load(script)
    except redis_exceptions.NoPermissionError as error:
        raise ScriptsMissing(
            "it does not hold kombu's scripts yet; a coordinator worker loads them when it starts and before each "
            "sweep: check that one runs"
        ) from error


def noted(raw: bytes) -> dict[str, Any] | None:
    """The record in a note of `_keep`, made anew: any producer may have written it. None if it is no such note."""
    if len(raw) > NOTE_MOST:
        return None
    try:
        note, _, queue = json.loads(raw)
        record = json.loads(note)
        reason, headers, body, size, digest = (record[name] for name in _NOTED)
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    match reason, headers, body, size, digest, queue:
        case str(), dict(), str(), int(), str(), str() if len(digest) == len(_NO_DIGEST):
            made = record_of_raw(body.encode("utf-8", "replace"), queue, reason, headers)
            return made | {"size": size, "digest": ascii(digest)[1:-1], "letter_id": letter_id_of(queue, digest)}
        case _:
            return None


NOTE_MOST: Final = 1024 * 1024
"""Bytes of a note: a record has less than 64 K characters, and JSON in JSON makes up to fourteen bytes of each."""
_NOTED: Final = ("reason", "headers", "body", "size", "digest")
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
    """Kombu's message, which unpacks nothing: a compressed one is an error, with its body as it came."""

    def __init__(self, msg: Any, channel: Any = None, **options: Any) -> None:
        headers = msg.properties.get("application_headers") or {}
        if isinstance(headers, Mapping) and headers.get("compression"):
            error = ValueError(content_flaw("application/json", None, headers))
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
    """From now on all connections of this process to brokers are guarded."""
    of_kombu = vars(transport)
    for scheme, kind in _GUARDED.items():
        of_kombu["TRANSPORT_ALIASES"][scheme] = f"{__name__}:{kind.__name__}"
        of_kombu["_transport_cache"].pop(scheme, None)  # what this process has connected with before
