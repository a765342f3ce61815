"""Statistics of Roboco's queues: how many messages wait, on any broker, and when the oldest was sent, on Redis."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

from amqp.exceptions import NotFound
from celery import Celery

from roboco.adapters.celery.dispatcher import sending, sent_at
from roboco.adapters.celery.fair_queues import headers_of
from roboco.adapters.celery.names import QUEUES, lanes

PRIORITIES: Final = ("", "\x06\x163", "\x06\x166")
"""Suffixes of a queue's name in Redis, where kombu keeps one list for each of its `priority_steps`."""


@dataclass(frozen=True)
class QueueNow:
    """A queue with its lanes."""

    name: str
    waiting: int
    """Messages that no worker has received."""
    oldest: float | None = None
    """When the oldest of them was sent, in Unix seconds, or None if that is not known."""


def queues_now(app: Celery, names: Iterable[str]) -> list[QueueNow]:
    """Return these queues as they are now; TransientError if the broker does not answer."""
    connections: Any = app.pool
    with sending("the query of its queues"), connections.acquire(block=True) as connection:
        channel = connection.default_channel
        if connection.transport.driver_type == "redis":
            return _in_redis(channel.client, list(names))
        return [QueueNow(name, sum(_declared(channel, lane) for lane in lanes(name))) for name in names]


def _in_redis(client: Any, names: list[str]) -> list[QueueNow]:
    with client.pipeline(transaction=False) as pipe:
        for one in chain.from_iterable(map(lists_of, names)):
            pipe.llen(one)
            pipe.lindex(one, -1)
        answers = iter(pipe.execute())
    found = []
    for name in names:
        lists = [(int(next(answers)), next(answers)) for _ in lists_of(name)]
        times = [at for _, last in lists if last is not None and (at := sent_at(headers_of(last))) is not None]
        found.append(QueueNow(name, sum(length for length, _ in lists), min(times, default=None)))
    return found


def lists_of(name: str) -> list[str]:
    """Return the lists in Redis in which messages of the queue wait: one for each lane and priority."""
    return [lane + step for lane in lanes(name) for step in PRIORITIES]


def _declared(channel: Any, name: str) -> int:
    try:
        return int(channel.queue_declare(queue=name, passive=True).message_count)
    except NotFound:  # no worker has declared it yet
        return 0


def queue_lengths(app: Celery) -> dict[str, int]:
    """Return the messages that no worker has received, by queue; TransientError if the broker does not answer."""
    return {queue: _length(app, queue) for queue in QUEUES}


def _length(app: Celery, queue: str) -> int:
    connections: Any = app.pool
    with (
        sending(f"the query of the length of {queue}"),
        connections.acquire(block=True) as connection,
        connection.channel() as channel,  # not a shared one: RabbitMQ closes it if the queue does not exist
    ):
        try:
            return int(channel.queue_declare(queue, passive=True).message_count)
        except connection.channel_errors:  # nothing was ever sent to it; on Redis, nothing waits
            return 0
