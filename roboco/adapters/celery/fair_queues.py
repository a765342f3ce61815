"""Lanes: in which queue of the broker a message waits, so that tenants do not stand in each other's way."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, Final

from amqp.exceptions import NotFound
from celery import Celery

from roboco.adapters.celery.names import QUEUE_OF, lanes_of
from roboco.domain.history.priority import Priority
from roboco.domain.ids import tenant_of

# Kombu's Redis transport keeps a list for each of `priority_steps`, and takes from the lowest number first. What other
# services send has no priority, and so the lowest number.
_ON_REDIS: Final = MappingProxyType({"high": 0, "normal": 3, "low": 6})
_ON_AMQP: Final = MappingProxyType({"high": 9, "normal": 4, "low": 0})


class Lanes:
    """The queues of one broker. The errors of the broker are raised as they are."""

    def __init__(self, app: Celery) -> None:
        self._app = app

    @property
    def on_redis(self) -> bool:
        """Whether the broker is Redis."""
        return str(self._app.conf.broker_url or "").startswith("redis")

    def number(self, priority: Priority | None) -> int | None:
        """The number that stands for the priority on this broker."""
        return None if priority is None else (_ON_REDIS if self.on_redis else _ON_AMQP)[priority]

    def shortest(self, name: str, task_id: str, priority: Priority | None) -> str:
        """The lane for a message of this task: of two, the one in which fewer wait."""
        possible = lanes_of(QUEUE_OF[name], tenant_of(task_id))
        if len(possible) == 1 or not self.on_redis:
            return possible[0]
        lengths = self._ask("llen", possible, priority)
        return min(zip(lengths, possible, strict=True))[1]

    def oldest(self, name: str, task_id: str, priority: Priority | None) -> list[Any]:
        """The headers of the oldest message of each list or queue in which one of this task may wait."""
        queues = lanes_of(QUEUE_OF[name], tenant_of(task_id))
        if self.on_redis:
            return [headers_of(message) for message in self._ask("lindex", queues, priority, -1) if message is not None]
        with self._connection() as connection:
            if connection.transport.driver_type != "amqp":
                return []
            return [_oldest(connection, queue) for queue in queues]

    def waiting(self, name: str, task_id: str) -> int:
        """How many messages wait in the lanes of this task, of any priority."""
        queues = lanes_of(QUEUE_OF[name], tenant_of(task_id))
        with self._connection() as connection:
            if self.on_redis:  # where an empty queue is none, and cannot be declared passively
                return sum(int(connection.default_channel._size(queue)) for queue in queues)
            return sum(_declared(connection, queue) for queue in queues)

    def _ask(self, command: str, queues: Sequence[str], priority: Priority | None, *arguments: int) -> list[Any]:
        """What Redis answers for the list of each queue."""
        with self._connection() as connection, connection.default_channel.client.pipeline(transaction=False) as pipe:
            channel = connection.default_channel
            for queue in queues:
                pipe.execute_command(command, channel._q_for_pri(queue, self.number(priority) or 0), *arguments)
            return list(pipe.execute())

    @contextmanager
    def _connection(self) -> Iterator[Any]:
        connections: Any = self._app.pool
        with connections.acquire(block=True) as connection:
            yield connection


def headers_of(message: bytes) -> Any:
    """The headers of a message as it lies in Redis; None for one that is not Celery's."""
    try:
        return json.loads(message)["headers"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _oldest(connection: Any, queue: str) -> Any:
    """The headers of the oldest message, which is taken and put back to its place; None if there is none."""

    def look(channel: Any) -> Any:
        with channel.connection.client.channel() as own:  # a queue that is not there closes its channel
            try:
                message = own.basic_get(queue)
            except NotFound:
                return None  # a broker that was emptied, and a queue that nothing was sent to since
            if message is None:
                return None
            own.basic_reject(message.delivery_tag, requeue=True)
            return message.properties.get("application_headers")

    headers, _ = connection.autoretry(look, max_retries=1, interval_start=0)()
    return headers


def _declared(connection: Any, queue: str) -> int:
    """How many messages wait in a queue of AMQP."""
    with connection.channel() as own:  # a queue that is not there closes its channel
        try:
            return int(own.queue_declare(queue, passive=True).message_count)
        except NotFound:
            return 0
