"""direct_publish: send a message of Roboco to a broker on Redis with one command.

    as_task_v2 ─► sign ─► envelope ─► LPUSH          the message: the same that `send_task` sends
        │
        └─► task-sent ─► the worker's next batch of events, or PUBLISH

Celery's `send_task` routes, declares the queue, binds copies of it, prepares retries and publishes the event for Flower
on its own. This takes a fifteenth less of the processor time of a turn. What Celery makes of a message is Celery's here
too: protocol, body, envelope and list. A test compares both messages, so that it fails if Celery sends others.

`publish` returns False where it does not apply: an older Celery, another broker, a connection that is not established
yet, which `send_task` tries as often as `task_publish_retry_policy` allows, a listener of Celery's signals about sent
messages, which may change them, or a broker that does not answer, so that `send_task` can try again. A message that
arrives twice has no second effect.
"""

import os
import weakref
from collections.abc import Mapping
from typing import Any, Final

from celery import VERSION, Celery, signals
from celery.events.event import Event
from kombu.serialization import dumps
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from roboco.adapters.celery.message_signing import SigningKeys, as_bytes

CONSUMER_SETTING: Final = "roboco_consumer"
"""The setting with the consumer of this process, which sends its events in batches."""
_IS_KNOWN_RELEASE: Final = VERSION[:2] >= (5, 7)
"""True if this Celery makes the messages that the test compares. Workers need that release, clients do not."""
_HEARD: Final = (signals.before_task_publish, signals.after_task_publish, signals.task_sent)


def note_consumer(app: Celery, consumer: Any) -> None:
    """Note the consumer of this process. Child processes have a copy of it that sends nothing."""
    app.conf[CONSUMER_SETTING] = os.getpid(), weakref.ref(consumer)


def publish(
    app: Celery, producer: Any, name: str, arguments: Mapping[str, Any], task_id: str, queue: str, **options: Any
) -> bool:
    """Send the message and its event. Return False, and send nothing that counts, if `send_task` has to do it.

    `options` are those of `send_task`: `headers`, `priority`, `argsrepr`, `kwargsrepr` and time limits.
    """
    connection = producer.connection  # not its channel: that connects, for six seconds if the broker refuses
    if connection.transport.driver_type != "redis" or not connection.connected or not _IS_KNOWN_RELEASE:
        return False
    if any(signal.receivers for signal in _HEARD):
        return False
    amqp: Any = app.amqp
    message = amqp.create_task_message(
        task_id,
        name,
        kwargs=dict(arguments),
        reply_to=app.thread_oid,
        create_sent_event=app.conf.task_send_sent_event,
        ignore_result=True,
        **_lineage(app),
        **{option: options.get(option) for option in ("time_limit", "soft_time_limit", "argsrepr", "kwargsrepr")},
    )
    try:
        _push(app, producer.channel, message, queue, options)
    except (RedisConnectionError, RedisTimeoutError, OSError):
        return False
    if message.sent_event:
        _send_event(app, producer, message.sent_event | {"queue": queue, "exchange": "", "routing_key": queue})
    return True


def _lineage(app: Celery) -> dict[str, str | None]:
    """Return the ids of the Celery task that sends, as Flower shows them."""
    sender: Any = app.current_worker_task
    if not sender:
        return {}
    return {"root_id": sender.request.root_id or sender.request.id, "parent_id": sender.request.id}


def _push(app: Celery, channel: Any, message: Any, queue: str, options: Mapping[str, Any]) -> None:
    headers = {**message.headers, **options["headers"]}
    content_type, encoding, body = dumps(message.body, serializer=app.conf.task_serializer)
    keys: SigningKeys = app.conf.get("roboco_signing_keys") or SigningKeys(())
    keys.sign(headers, as_bytes(body))
    properties = message.properties | {"delivery_mode": 2}
    envelope = channel.prepare_message(body, options.get("priority"), content_type, encoding, headers, properties)
    channel.basic_publish(envelope, "", queue)


def _send_event(app: Celery, producer: Any, fields: dict[str, Any]) -> None:
    """Add the event of a sent message to the next batch of the worker, or publish it if this process has none."""
    own: Any = app.amqp
    sender = own._event_dispatcher
    pid, consumer = app.conf.get(CONSUMER_SETTING) or (0, lambda: None)
    batches = getattr(consumer(), "event_dispatcher", None) if pid == os.getpid() else None
    if batches is None or not batches.enabled:
        sender.publish("task-sent", fields, producer, retry=True, retry_policy=app.conf.task_publish_retry_policy)
        return

    def named(kind: str, **more: Any) -> Any:
        return Event(kind, **more | {"hostname": sender.hostname})  # the sender, as Celery names it: not the worker

    batches.send("task-sent", Event=named, **fields)
