"""Statistics of Roboco's queues: how many messages wait, on any broker, and when the oldest was sent, on Redis."""

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

from celery import Celery

from roboco.broker.broker import PRIORITIES
from roboco.broker.broker_error import translating_errors
from roboco.broker.fair_queues import count_messages, headers_of, redis_list
from roboco.broker.names import QUEUES, queue_lanes

SENT_AT: Final = "roboco_sent_at"
"""The header with the time at which a message was sent, in Unix seconds."""


@dataclass(frozen=True)
class QueueStats:
    """A queue with its lanes."""

    name: str
    waiting: int
    """Messages that no worker has received."""
    oldest: float | None = None
    """When the oldest of them was sent, in Unix seconds, or None if that is not known."""


def read_queue_stats(app: Celery, names: Iterable[str]) -> list[QueueStats]:
    """Return these queues as they are now; TransientError if the broker does not answer."""
    connections: Any = app.pool
    with translating_errors("the query of its queues"), connections.acquire(block=True) as connection:
        if connection.transport.driver_type == "redis":
            return _redis_stats(connection.default_channel.client, list(names))
        return [QueueStats(name, sum(count_messages(connection, lane) for lane in queue_lanes(name))) for name in names]


def _redis_stats(client: Any, names: list[str]) -> list[QueueStats]:
    with client.pipeline(transaction=False) as pipe:
        for one in chain.from_iterable(map(redis_lists, names)):
            pipe.llen(one)
            pipe.lindex(one, -1)
        answers = iter(pipe.execute())
    found = []
    for name in names:
        lists = [(int(next(answers)), next(answers)) for _ in redis_lists(name)]
        times = [at for _, last in lists if last is not None and (at := sent_at(headers_of(last))) is not None]
        found.append(QueueStats(name, sum(length for length, _ in lists), min(times, default=None)))
    return found


def redis_lists(name: str) -> list[str]:
    """Return the lists in Redis in which messages of the queue wait: one for each lane and priority."""
    return [redis_list(lane, step) for lane in queue_lanes(name) for step in PRIORITIES]


def queue_lengths(app: Celery) -> dict[str, int]:
    """Return the messages that no worker has received, by queue; TransientError if the broker does not answer."""
    return {one.name: one.waiting for one in read_queue_stats(app, QUEUES)}


def sent_at(headers: Any) -> float | None:
    """Return when the message with these headers was sent, in Unix seconds, or None if Roboco did not send it."""
    try:
        at = float(headers[SENT_AT])
    except (ValueError, KeyError, TypeError, OverflowError):
        return None
    return at if math.isfinite(at) else None


def queue_description(stats: QueueStats, pool: str) -> str:
    """Return how many messages wait in the queue of the pool, with the remedy, or "" if none waits."""
    if not stats.waiting:
        return ""
    age = "" if stats.oldest is None else f", the oldest for {max(0.0, time.time() - stats.oldest):.0f} s"
    return f"{stats.waiting} messages wait in {stats.name}{age}: add {pool} workers"
