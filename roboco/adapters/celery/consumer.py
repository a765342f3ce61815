"""The consumer of every worker: neither a lost broker nor a malformed message ends or blocks a worker."""

import hashlib
import json
import logging
import math
import time
from collections.abc import Callable, Container, Iterable, Mapping
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Final

from celery.worker.consumer import Consumer
from celery.worker.control import Panel
from kombu.message import Message

from roboco.adapters.celery.config import Bury
from roboco.adapters.celery.names import QUEUE_OF
from roboco.adapters.celery.signature import MessageKeys, as_bytes
from roboco.domain.letter import letter_id_of

BODY_LIMIT: Final = 1024 * 1024  # bytes; a prompt and a team fit
BODY_MOST: Final = 64 * 1024 * 1024  # bytes that are looked at
HEADER_LIMIT: Final = 256  # characters of JSON, for one header
ID_LIMIT: Final = 255  # characters; it stands in keys and in logs
HEADERS_LIMIT: Final = 40  # Celery itself sends about 20
REASON_LIMIT: Final = 512  # characters
UNSIGNED: Final = frozenset({"enable_events", "disable_events", "heartbeat"})
"""What remote control may still do where messages are signed: its own are not."""
COSTLY: Final = frozenset({"hello", "objgraph", "memdump", "memsample"})  # questions that change or cost something
SHOWN_ONLY: Final = frozenset({"argsrepr", "kwargsrepr"})  # headers that nothing but a display needs

logger = logging.getLogger(__name__)


class GuardedConsumer(Consumer):
    """Celery's consumer, mended for a lost broker, and guarded against messages that it cannot run.

    Such a message is acknowledged and handed to the setting `roboco_bury`; without one it is only logged.
    Gossip and mingle are off: nothing here needs them. Where messages are signed, remote control, which is not, can
    only ask. Off are the 28 queues, too, that Celery declares on RabbitMQ for messages of a later time, which it cannot
    deliver to the queues here.
    """

    Blueprint: Any = type(
        "Blueprint",
        (Consumer.Blueprint,),
        {"default_steps": [step for step in Consumer.Blueprint.default_steps if not step.endswith(":DelayedDelivery")]},
    )

    pause = 2.0  # seconds until a message that could not be buried goes back to its queue
    gathering = 0.1  # seconds for which events wait for more: each publication is a message of its own

    hub: Any
    event_dispatcher: Any
    connection_errors: tuple[type[Exception], ...]
    channel_errors: tuple[type[Exception], ...]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # What is acknowledged early counts only until it begins: a worker that takes as many again as it can run
        # keeps them from others, and the fair order of the queues from them.
        if most := kwargs["app"].conf.get("roboco_prefetch"):
            kwargs["initial_prefetch_count"] = most
        # There is no setting for these two, only options of the command line, which this overrules.
        super().__init__(*args, **kwargs, without_gossip=True, without_mingle=True)
        # kombu counts KeyError as a lost connection; while a message is handled, it is a flaw of the message.
        errors = self.connection_errors + self.channel_errors
        self._keys: MessageKeys = self.app.conf.get("roboco_keys") or MessageKeys(())
        if self._keys:
            _only_questions()
        self._outages = tuple(error for error in errors if not issubclass(KeyError, error))
        self._flush_due = -math.inf
        self._ends = False

    def on_connection_error_after_connected(self, exc: Exception) -> None:
        self._flush()  # what it cannot send, the next dispatcher takes over, though not what was only gathered
        # Since celery#10242 (5.7.0) a lost connection is first collected and then closed. If a late-acknowledged
        # Celery task is in flight while the worker waits for one more, that close gives the message back through
        # a transport which collecting has stripped of its client: AttributeError, and the worker exits. The
        # visibility timeout gives messages back as well, so the close is left out.
        if self.connection and self.connection.transport.driver_type == "redis":
            vars(self.connection)["close"] = lambda: None
        super().on_connection_error_after_connected(exc)

    def on_send_event_buffered(self) -> Any:
        # From any thread. A timer that a lost connection takes along is set anew by the next event after its time.
        if self._ends:
            self._flush(waits=False)  # a signal may have interrupted who sends
        elif (now := time.monotonic()) > self._flush_due:
            self._flush_due = now + self.gathering
            self.hub.call_soon(self.hub.call_later, self.gathering, self._flush)

    def stop(self) -> None:
        self._ends = True
        self._flush()
        super().stop()

    def shutdown(self) -> None:
        self._flush()  # the pool has ended
        super().shutdown()

    def _flush(self, waits: bool = True) -> None:
        dispatcher = self.event_dispatcher
        if dispatcher and (waits or not dispatcher.mutex.locked()):
            dispatcher.flush()

    def create_task_handler(self, *args: Any, **kwargs: Any) -> Callable[[Message], None]:
        handle = super().create_task_handler(*args, **kwargs)
        known = own_tasks(self.app.tasks, self.app.amqp.queues.consume_from)

        def guarded(message: Message) -> None:
            reason = flaw(message, known, self._keys)
            if reason:
                self._bury(message, reason)
                return
            try:
                handle(message)
            except self._outages:
                raise
            except Exception as error:
                # Unforeseen: this worker may have lost a slot and has to go, but it must not take the next along.
                if not message.acknowledged:
                    self._bury(message, f"no worker can take it: {error!r}")
                raise

        return guarded

    def on_decode_error(self, message: Message, exc: Exception) -> None:
        self._bury(message, f"body cannot be read: {exc}")

    def on_invalid_task(self, body: object, message: Message, exc: Exception) -> None:
        self._bury(message, str(exc))

    def _bury(self, message: Message, reason: str) -> None:
        record = _record(message, reason)
        bury: Bury | None = self.app.conf.get("roboco_bury")
        try:
            if bury:
                bury(record)
        except Exception:
            # To the end of its queue, and later: at once would be a hot loop for as long as the store is away.
            told = {name: record[name] for name in ("queue", "reason", "letter_id")}
            logger.exception("cannot bury %s, trying again in %s s", json.dumps(told), self.pause)
            give_back = (logger, self.connection_errors, True)
            self.timer.call_after(self.pause, message.reject_log_error, give_back)
        else:
            done = "buried" if bury else "dropped, as 'roboco_bury' is not set,"
            logger.warning("%s a message of queue %r: %s", done, record["queue"], record["reason"])
            message.ack_log_error(logger, self.connection_errors)


def own_tasks(registered: Iterable[str], queues: Iterable[str]) -> frozenset[str]:
    """The Celery tasks that are for these queues: a tool must not run in a pool that holds the keys of models.

    Celery's own, such as `celery.map`, would run any of the others.
    """
    ours = set(queues) & set(QUEUE_OF.values())
    return frozenset(
        name
        for name in registered
        if not name.startswith("celery.") and (not ours or QUEUE_OF.get(name) in (None, *ours))
    )


def flaw(message: Message, known: Container[object], keys: MessageKeys) -> str | None:
    """Why a worker with the `known` Celery tasks must not run `message`, or None where it can."""
    return (
        _header_flaw(message.headers, known)
        or _size_flaw(message.body or "")
        or keys.flaw(message.headers, as_bytes(message.body or ""))
        or _body_flaw(message)
    )


def _only_questions() -> None:
    """Refuse all commands of remote control that do something; this process is a worker."""
    for name, command in Panel.meta.items():
        if name in COSTLY or (command.type == "control" and name not in UNSIGNED):
            Panel.data[name] = _refuse


def _refuse(state: object, **arguments: object) -> dict[str, str]:
    return {"error": "refused: messages are signed here (ROBOCO_MESSAGE_KEYS), and remote control is not"}


def _header_flaw(headers: Mapping[str, Any], known: Container[object]) -> str | None:
    match headers:
        case {"task": str(task)} if task not in known:
            return f"this worker has no Celery task {task!r}: deploy workers before what sends to them"
        case {"task": str(), "id": str(ident)} if ident and len(ident) <= ID_LIMIT and ident.isprintable():
            return _option_flaw(headers)
        case {"task": str()}:
            return f"header 'id' is {headers.get('id')!r:.80}, expected a text of up to {ID_LIMIT} printable characters"
        case _:
            return f"header 'task' is {headers.get('task')!r}, expected the name of a Celery task"


def _option_flaw(headers: Mapping[str, Any]) -> str | None:
    # The optional headers which Celery uses unchecked in the worker's main process.
    match headers.get("timelimit"):
        case None | [int() | float() | None, int() | float() | None]:
            pass
        case limits:
            return f"header 'timelimit' is {limits!r}, expected two numbers or nulls"
    stamped = headers.get("stamped_headers") or []
    if not (isinstance(stamped, list) and all(isinstance(name, str) for name in stamped)):
        return f"header 'stamped_headers' is {stamped!r}, expected a list of names"
    return None


def _size_flaw(body: bytes | str) -> str | None:
    return f"body has {len(body)} bytes, at most {BODY_MOST} are possible" if len(body) > BODY_MOST else None


def _body_flaw(message: Message) -> str | None:
    try:
        body = message.payload
    except Exception as error:
        return f"body cannot be read: {error}"
    match body:
        case [list(), dict(), dict() | None]:
            return None
        case _:
            return f"body is no [args, kwargs, options] but a {type(body).__name__}"


def _record(message: Message, reason: str) -> dict[str, Any]:
    body: Any = message.body
    raw = body if isinstance(body, bytes) else str(body).encode("utf-8", "replace")
    text = raw[:BODY_LIMIT].decode("utf-8", "replace")
    headers = {name[:HEADER_LIMIT]: _shortened(value) for name, value in islice(message.headers.items(), HEADERS_LIMIT)}
    needed = {name: value for name, value in message.headers.items() if name not in SHOWN_ONLY}
    queue = str(message.delivery_info.get("routing_key"))
    return {
        "letter_id": letter_id_of(queue, *_identity(message, raw)),
        "reason": reason[:REASON_LIMIT],
        "queue": queue,
        "headers": headers,
        "body": text,
        "content_type": message.content_type or "application/json",
        "content_encoding": message.content_encoding or "utf-8",
        "cut": text.encode() != raw or any(headers.get(name) != value for name, value in needed.items()),
        "time": datetime.now(UTC).isoformat(),
    }


def _identity(message: Message, raw: bytes) -> tuple[str, ...]:
    """What is the same when the message comes again. A tag of AMQP is only a number of its connection."""
    if isinstance(message.delivery_tag, str):
        return (message.delivery_tag,)
    told = json.dumps([message.headers, message.properties], default=str, sort_keys=True)
    return told, hashlib.sha256(raw).hexdigest()


def _shortened(value: object) -> object:
    """The value as JSON has it, or the beginning of its JSON text where that is long."""
    text = json.dumps(value, default=str)
    return json.loads(text) if len(text) <= HEADER_LIMIT else text[:HEADER_LIMIT]
