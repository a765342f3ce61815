"""broker_fault: find out whether the broker takes messages now, without sending one to a queue.

Redis:    SETRANGE of nothing, which changes nothing, and is refused like any write
RabbitMQ: a message that no queue gets ─► confirmed, or connection.blocked: an alarm
"""

from typing import Any

from amqp.spec import Connection as Methods
from celery import Celery
from kombu import Connection

from roboco.broker.broker_error import BROKER_ERRORS, explain_broker
from roboco.redis.server_error import BROKER_URL_SETTING, write_refusal

_PROBE_KEY = "roboco:{probe}:state"
"""A key that does not exist, and that the users of deploy/redis-users.acl may write."""
ALARM_TIMEOUT = 1.0
"""Seconds within which a RabbitMQ without an alarm confirms a message."""
_REMEDY = (
    "`rabbitmq-diagnostics alarms` names the node; for memory, raise vm_memory_high_watermark or empty long queues; "
    "for disk, free space (see disk_free_limit)"
)
_UNCONFIRMED = f"RabbitMQ has not confirmed a message for {ALARM_TIMEOUT:g} s; see its log, its load and its alarms"


def write_fault(app: Celery) -> str:
    """Return why the broker takes no messages, with the remedy, or ""."""
    try:
        with app.connection_for_write() as connection:
            if connection.transport.driver_type == "redis":
                channel: Any = connection.default_channel
                return write_refusal(channel.client, _PROBE_KEY, BROKER_URL_SETTING)
            return _alarm(connection) if connection.transport.driver_type == "amqp" else ""
    except BROKER_ERRORS as error:
        return explain_broker(error)


def _alarm(connection: Connection) -> str:
    """Return the alarm of a RabbitMQ, or "". An orderly close would wait for it, so the connection is dropped."""
    channel: Any = connection.default_channel
    server: Any = connection.connection
    reasons = list[str]()
    dispatch = server.dispatch_method

    def note_reason(method: tuple[int, int], payload: bytes, content: object) -> None:
        if method == Methods.Blocked:  # the client library drops the reason, which follows four bytes and its length
            reasons.append(bytes(payload[5:]).decode(errors="replace"))
        dispatch(method, payload, content)

    server.dispatch_method = note_reason
    try:
        channel.basic_publish(
            channel.prepare_message(b""), exchange="", routing_key="roboco.none", confirm_timeout=ALARM_TIMEOUT
        )
    except TimeoutError:
        if not reasons:
            return _UNCONFIRMED
    finally:
        connection.collect()
    return f"RabbitMQ has an alarm, {reasons[0]}; {_REMEDY}" if reasons else ""
