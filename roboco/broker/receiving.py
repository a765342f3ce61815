"""receiving: the part of a channel over Redis that receives messages, and checks each before kombu parses it.

    list ── BLMPOP or BRPOP ──► read strictly (envelope.py) ─┬─► kombu's Message ─► GuardedConsumer
                                                             └─► RefusedMessage ─► dead letter

Kombu requests one message at a time, and each passes through the worker's main loop alone. A channel whose transport
has `count_free` requests as many as the worker can start at once, all from one queue. A message that is received, but
not delivered, is in the memory of this process alone, so only messages of REPEATED_TASKS may be received like that.

A dead letter that cannot be stored goes into the hash of messages that workers hold. Kombu restores it after the
visibility timeout, and it is stored then. If the broker does not accept the record either, the log has the length, the
digest and the reason of the lost message.
"""

import json
import logging
import time
from collections.abc import Callable
from queue import Empty
from typing import Any, Final

from kombu.utils.encoding import bytes_to_str
from redis import exceptions as redis_exceptions
from redis.exceptions import RedisError

from roboco.broker.dead_letter import record_of_raw
from roboco.broker.envelope import RefusedMessage, read_envelope
from roboco.domain.dead_letter import letter_id_of

StoreRecord = Callable[[dict[str, Any]], None]
"""Stores the record of a refused message, or raises."""

logger = logging.getLogger(__name__)


def _refuses_command(error: Exception) -> bool:
    """Return True if the broker does not know the command, or the user may not call it."""
    if not isinstance(error, redis_exceptions.ResponseError):
        return False
    return isinstance(error, redis_exceptions.NoPermissionError) or "unknown command" in str(error).lower()


class ReceivingChannel:
    """The part of a channel that receives. It replaces methods of kombu's channel, whose names it keeps."""

    connection: Any
    sep: str
    _command = "BRPOP"
    """The command whose answer the channel waits for."""

    def _brpop_start(self, timeout: float | None = None) -> None:
        """Request the next message, or as many messages of one queue as the worker can start at once."""
        own: Any = self
        count = self._count_wanted()
        self._command = "BRPOP" if count < 2 else "BLMPOP"
        if count < 2:
            super()._brpop_start(timeout)  # type: ignore[misc]  # a mixin
            return
        queues = own._queue_cycle.consume(len(own.active_queues))
        if not queues:
            return
        keys = [own._q_for_pri(queue, priority) for priority in own.priority_steps for queue in queues]
        seconds = own.brpop_timeout if timeout is None else timeout
        own._in_poll = own.client.connection
        own._brpop_sent_at = time.monotonic()  # for kombu's check of a connection that does not answer
        own._in_poll.send_command("BLMPOP", seconds or 0, len(keys), *keys, "RIGHT", "COUNT", count)

    def _count_wanted(self) -> int:
        own: Any = self
        count_free: Callable[[], int] | None = getattr(self.connection, "count_free", None)
        if count_free is None or own.global_keyprefix:  # which kombu can prefix to the keys of BRPOP only
            return 1
        allowed = own.qos.can_consume_max_estimate()  # None without a limit
        return count_free() if allowed is None else min(count_free(), allowed)

    def _brpop_read(self, **options: Any) -> bool:
        """Deliver the messages that the broker has sent. Raise Empty if it has sent none."""
        own: Any = self
        try:
            answer = self._read_answer(**options)
            if not answer:
                raise Empty
            key, found = answer
            queue = bytes_to_str(key).rsplit(self.sep, 1)[0]
            own._queue_cycle.rotate(queue)  # the other queues are next
            self._deliver_each(found if isinstance(found, list) else [found], queue)
            return True
        finally:
            own._in_poll = None
            own._flush_brpop_reauth()

    def _read_answer(self, **options: Any) -> Any:
        own: Any = self
        try:
            return own.client.parse_response(own.client.connection, self._command, **options)
        except Exception as error:
            if self._command == "BRPOP" or not _refuses_command(error):
                own.client.connection.disconnect()  # it may lead to a replica, or have another user's rights
                raise
            self.connection.count_free = None
            logger.warning(
                "this worker receives one message at a time, because the broker refuses BLMPOP: %s; "
                "use Redis 7.0 or newer, and give the worker's user the right to BLMPOP",
                error,
            )
            return None

    def _deliver_each(self, found: list[bytes], queue: str) -> None:
        """Deliver each message, or store its dead letter. Raise an error only after that, so that no other is lost.

        Of several errors one is raised that is no lost connection, because the worker may have to exit for it.
        """
        own: Any = self
        errors = list[Exception]()
        for raw in found:
            try:
                self._deliver_one(raw, queue)
            except Exception as error:
                logger.warning("the delivery of a message of queue %r failed: %s", queue, type(error).__name__)
                errors.append(error)
        if errors:
            raise next((error for error in errors if not isinstance(error, own.connection_errors)), errors[0])

    def _deliver_one(self, raw: bytes, queue: str) -> None:
        own: Any = self
        match read_envelope(raw, queue):
            case RefusedMessage() as refused:
                self._refuse(raw, queue, refused)
            case message:
                # A sender may have used the tag of another message that a worker holds, and overwrite its entry.
                message["properties"]["delivery_tag"] = own._next_delivery_tag()
                self.connection._deliver(message, queue)

    def _poll_error(self, type: str, **options: Any) -> None:  # noqa: A002  # named by kombu
        """Read from a connection that failed, which raises; kombu would read the answer of a BRPOP."""
        if type == "BRPOP":
            self._brpop_read(**options)
        else:
            super()._poll_error(type, **options)  # type: ignore[misc]  # a mixin

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
