"""What waits in the broker's queues."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from amqp.exceptions import NotFound
from celery import Celery

from roboco.adapters.celery.dispatcher import sending, sent_at

PRIORITIES: Final = ("", "\x06\x163", "\x06\x166", "\x06\x169")
"""What is added to a queue's name for the lists in which Redis keeps its messages, by priority."""


@dataclass(frozen=True)
class QueueNow:
    """A queue: how many messages wait in it, and when the oldest was sent, in Unix seconds, if that is known."""

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
        return [QueueNow(name, _declared(channel, name)) for name in names]


def _in_redis(client: Any, names: list[str]) -> list[QueueNow]:
    with client.pipeline(transaction=False) as pipe:
        for name in names:
            for step in PRIORITIES:
                pipe.llen(name + step)
                pipe.lindex(name + step, -1)
        answers = iter(pipe.execute())
    found = []
    for name in names:
        lists = [(int(next(answers)), next(answers)) for _ in PRIORITIES]
        times = [at for _, last in lists if last is not None and (at := sent_at(last)) is not None]
        found.append(QueueNow(name, sum(length for length, _ in lists), min(times, default=None)))
    return found


def _declared(channel: Any, name: str) -> int:
    try:
        return int(channel.queue_declare(queue=name, passive=True).message_count)
    except NotFound:  # no worker has declared it yet
        return 0
