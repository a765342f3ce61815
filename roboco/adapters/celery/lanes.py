"""Lanes: in which queue of the broker a message waits, so that tenants do not stand in each other's way."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, Final

from celery import Celery

from roboco.adapters.celery.names import QUEUE_OF, lanes_of
from roboco.domain.ids import tenant_of
from roboco.domain.priority import Priority

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

    def oldest(self, name: str, task_id: str, priority: Priority | None) -> list[bytes]:
        """The oldest message of each list in which one of this task may wait; none on a broker other than Redis."""
        if not self.on_redis:
            return []
        found = self._ask("lindex", lanes_of(QUEUE_OF[name], tenant_of(task_id)), priority, -1)
        return [message for message in found if message is not None]

    def waiting(self, name: str, task_id: str) -> int:
        """How many messages wait in the lanes of this task, of any priority."""
        with self._channel() as channel:
            return sum(self._size(channel, lane) for lane in lanes_of(QUEUE_OF[name], tenant_of(task_id)))

    def _size(self, channel: Any, queue: str) -> int:
        if self.on_redis:  # where an empty queue is none, and cannot be declared passively
            return int(channel._size(queue))
        return int(channel.queue_declare(queue, passive=True).message_count)

    def _ask(self, command: str, queues: Sequence[str], priority: Priority | None, *arguments: int) -> list[Any]:
        """What Redis answers for the list of each queue."""
        with self._channel() as channel, channel.client.pipeline(transaction=False) as pipe:
            for queue in queues:
                pipe.execute_command(command, channel._q_for_pri(queue, self.number(priority) or 0), *arguments)
            return list(pipe.execute())

    @contextmanager
    def _channel(self) -> Iterator[Any]:
        connections: Any = self._app.pool
        with connections.acquire(block=True) as connection:
            yield connection.default_channel
