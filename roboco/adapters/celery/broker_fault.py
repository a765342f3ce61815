"""broker_fault: find out whether the broker takes messages now, without sending one to a queue.

Redis:    SETRANGE of nothing, which changes nothing, and is refused like any write
RabbitMQ: a message that no queue gets ─► confirmed, or connection.blocked: an alarm
"""

from typing import Any

from celery import Celery
from kombu import Connection

from roboco.adapters.celery.broker_error import translating_errors
from roboco.adapters.redis.server_error import BROKER_URL_SETTING, write_refusal

_PROBE_KEY = "roboco:{probe}:state"
"""A key that does not exist, and that the users of deploy/redis-users.acl may write."""
ALARM_TIMEOUT = 1.0
"""Seconds within which a RabbitMQ without an alarm confirms a message."""


def write_fault(app: Celery) -> str:
    """Return why the broker takes no messages, with the remedy, or "". Raise TransientError if it does not answer."""
    with translating_errors("a check of the broker"), app.connection_for_write() as connection:
        if connection.transport.driver_type == "redis":
            channel: Any = connection.default_channel
            return write_refusal(channel.client, _PROBE_KEY, BROKER_URL_SETTING)
        return _alarm(connection) if connection.transport.driver_type == "amqp" else ""


def _alarm(connection: Connection) -> str:
    """Return the alarm of a RabbitMQ, or "". An orderly close would wait for it, so the connection is dropped."""
    channel: Any = connection.default_channel
    server: Any = connection.connection
    reasons = list[str]()
    server.on_blocked = reasons.append
    try:
        channel.basic_publish(
            channel.prepare_message(b""), exchange="", routing_key="roboco.none", confirm_timeout=ALARM_TIMEOUT
        )
    except TimeoutError:
        reasons.append("no confirmation")
    finally:
        connection.collect()
    if not reasons:
        return ""
    return "RabbitMQ has an alarm: see rabbitmq-diagnostics alarms, and give it memory or disk"
