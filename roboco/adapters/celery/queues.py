"""What waits in the broker's queues."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

from amqp.exceptions import NotFound
from celery import Celery

from roboco.adapters.celery.dispatcher import sending, sent_at
from roboco.adapters.celery.fair_queues import headers_of
from roboco.adapters.celery.names import lanes

PRIORITIES: Final = ("", "\x06\x163", "\x06\x166")
"""What is added to a queue's name for the lists in which Redis keeps its messages, by priority."""


@dataclass(frozen=True)
class QueueNow:
    """A queue with its lanes: how many messages wait; when the oldest was sent, in Unix seconds, if that is known."""

    name: str
    waiting: int
    oldest: float | None = None


def queues_now(app: Celery, names: Iterable[str]) -> list[QueueNow]:
    """The queues of these names as they are now; TransientError if the broker does not answer."""
    connections: Any = app.pool
    with sending("a look at its queues"), connections.acquire(block=True) as connection:
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
    """The lists in Redis in which messages of the queue wait: one for each lane and priority."""
    return [lane + step for lane in lanes(name) for step in PRIORITIES]


def _declared(channel: Any, name: str) -> int:
    try:
        return int(channel.queue_declare(queue=name, passive=True).message_count)
    except NotFound:  # no worker has declared it yet
        return 0
