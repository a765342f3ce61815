"""queues: the broker's queues: the choice of one, so that no tenant's backlog delays the others, and their lengths.

Shuffle sharding: each queue has several lanes, which workers consume in turn. The hash of a tenant's name selects two
of them, and a message goes to the shorter one (on RabbitMQ to the first one). A tenant that floods its two lanes delays
only the tenants with the same pair: with 8 lanes, one of 28. Tenants that share one lane with it use their other lane.
The number of queues is fixed, however many tenants there are. Tasks without a tenant use the queue itself.
"""

import json
import math
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from types import MappingProxyType
from typing import Any, Final

from amqp.exceptions import NotFound
from celery import Celery

from roboco.broker.broker import PRIORITIES, SEPARATOR
from roboco.broker.broker_error import translating_errors
from roboco.broker.names import QUEUE_OF, QUEUES, queue_lanes, tenant_lanes
from roboco.domain.ids import tenant_of
from roboco.domain.status import Priority

# Kombu's Redis transport keeps a list for each of `priority_steps`, and consumes the lowest number first. Messages of
# other services have no priority, and so the lowest number. On AMQP the highest number is first.
_REDIS_PRIORITIES: Final = MappingProxyType({"high": 0, "normal": 3, "low": 6})
SENT_AT: Final = "roboco_sent_at"
"""The header with the time at which a message was sent, in Unix seconds."""
_AMQP_PRIORITIES: Final = MappingProxyType({"high": 9, "normal": 4, "low": 0})


class FairQueues:
    """The queues of one broker. Its methods raise the errors of the broker unchanged."""

    def __init__(self, app: Celery) -> None:
        self._app = app

    @property
    def on_redis(self) -> bool:
        """True if the broker is Redis, or the Redis that Sentinels name."""
        return str(self._app.conf.broker_url or "").startswith(("redis", "sentinel"))

    def priority_number(self, priority: Priority | None) -> int | None:
        """Return the priority as a number of this broker, or None for no priority."""
        return None if priority is None else (_REDIS_PRIORITIES if self.on_redis else _AMQP_PRIORITIES)[priority]

    def choose(self, name: str, task_id: str, priority: Priority | None) -> str:
        """Return the lane for a message of this task: on Redis the shorter one of two, elsewhere the first."""
        possible = tenant_lanes(QUEUE_OF[name], tenant_of(task_id))
        if len(possible) == 1 or not self.on_redis:
            return possible[0]
        step = self.priority_number(priority) or 0
        lengths = self._query("llen", [redis_list(queue, step) for queue in possible])
        return min(zip(lengths, possible, strict=True))[1]

    def oldest_headers(self, name: str, task_id: str, priority: Priority | None) -> list[Any]:
        """Return the headers of the oldest message of each list or queue that a message of this task may use."""
        queues = tenant_lanes(QUEUE_OF[name], tenant_of(task_id))
        if self.on_redis:
            step = self.priority_number(priority) or 0
            found = self._query("lindex", [redis_list(queue, step) for queue in queues], -1)
            return [headers_of(message) for message in found if message is not None]
        with _connected(self._app) as connection:
            if connection.transport.driver_type != "amqp":
                return []
            return [_oldest_headers(connection, queue) for queue in queues]

    def count_waiting(self, name: str, task_id: str) -> int:
        """Return the messages of any priority that wait in the lanes of this task."""
        queues = tenant_lanes(QUEUE_OF[name], tenant_of(task_id))
        if self.on_redis:
            return sum(self._query("llen", [redis_list(queue, step) for queue in queues for step in PRIORITIES]))
        with _connected(self._app) as connection:
            return sum(count_messages(connection, queue) for queue in queues)

    def _query(self, command: str, lists: Sequence[str], *arguments: int) -> list[Any]:
        """Return the answers of Redis to a command about each list."""
        with _connected(self._app) as connection, connection.default_channel.client.pipeline(transaction=False) as pipe:
            for one in lists:
                pipe.execute_command(command, one, *arguments)
            return list(pipe.execute())


@dataclass(frozen=True)
class QueueStats:
    """A queue with its lanes."""

    name: str
    waiting: int
    """Messages that no worker has received."""
    oldest: float | None = None
    """When the oldest of them was sent, in Unix seconds, or None if that is not known."""


@contextmanager
def _connected(app: Celery) -> Iterator[Any]:
    connections: Any = app.pool
    with connections.acquire(block=True) as connection:
        yield connection


def redis_list(queue: str, step: int) -> str:
    """Return the list in Redis in which messages of this priority wait."""
    return f"{queue}{SEPARATOR}{step}" if step else queue


def headers_of(message: bytes) -> Any:
    """Return the headers of a message as Redis stores it, or None if it is not one of Celery."""
    try:
        return json.loads(message)["headers"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _oldest_headers(connection: Any, queue: str) -> Any:
    """Return the headers of the oldest message, or None if there is none. It is received and requeued at its place."""

    def receive_and_requeue(channel: Any) -> Any:
        with channel.connection.client.channel() as own:  # if the queue does not exist, RabbitMQ closes this channel
            try:
                message = own.basic_get(queue)
            except NotFound:
                return None  # nothing was sent to the queue since the broker was emptied
            if message is None:
                return None
            own.basic_reject(message.delivery_tag, requeue=True)
            return message.properties.get("application_headers")

    headers, _ = connection.autoretry(receive_and_requeue, max_retries=1, interval_start=0)()
    return headers


def count_messages(connection: Any, queue: str) -> int:
    """Return the messages that wait in a queue of AMQP; 0 if it does not exist."""
    with connection.channel() as own:  # if the queue does not exist, RabbitMQ closes this channel
        try:
            return int(own.queue_declare(queue, passive=True).message_count)
        except NotFound:
            return 0


def read_queue_stats(app: Celery, names: Iterable[str]) -> list[QueueStats]:
    """Return these queues as they are now; TransientError if the broker does not answer."""
    with translating_errors("the query of its queues"), _connected(app) as connection:
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
