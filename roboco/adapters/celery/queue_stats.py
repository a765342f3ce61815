"""How many messages wait in Roboco's queues, on any broker."""

from typing import Any

from celery import Celery

from roboco.adapters.celery.dispatcher import sending
from roboco.adapters.celery.names import QUEUES


def queue_lengths(app: Celery) -> dict[str, int]:
    """Messages that no worker has taken, by queue; TransientError if the broker does not answer."""
    return {queue: _length(app, queue) for queue in QUEUES}


def _length(app: Celery, queue: str) -> int:
    connections: Any = app.pool
    with (
        sending(f"the question how long {queue} is"),
        connections.acquire(block=True) as connection,
        connection.channel() as channel,  # of its own: RabbitMQ closes it if there is no such queue
    ):
        try:
            return int(channel.queue_declare(queue, passive=True).message_count)
        except connection.channel_errors:  # nothing was ever sent to it; on Redis, nothing waits
            return 0
