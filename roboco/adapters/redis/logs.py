"""The logs of both channels of a task on Redis: the events of its execution, and the content that its turns publish."""

from collections.abc import Iterator
from typing import Any

import redis

from roboco.adapters.redis.keys import Keys
from roboco.adapters.redis.scripts import translating_errors
from roboco.domain.canonical_json import canonical_json
from roboco.domain.stream.event import AnyEvent

PAGE_SIZE = 500
"""Entries that are read or sent at a time."""


class RedisEventLogs:
    """The logs of both channels of a task: one Redis stream for each."""

    def __init__(self, client: redis.Redis, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    def events(self, task_id: str, after: int) -> Iterator[bytes]:
        """Return the messages of the execution channel after this number, oldest first."""
        return (message.encode() for _, message in self.entries(self._keys.events(task_id), after))

    def chunks(self, task_id: str, after: int) -> Iterator[bytes]:
        """Return the messages of the content channel after this number that Redis still has, oldest first."""
        return (message.encode() for _, message in self.entries(self._keys.content(task_id), after))

    def publish_unlogged(self, task_id: str, event: AnyEvent) -> None:
        """Publish an event of a task that does not exist. The event has no number, and no log stores it."""
        with translating_errors():
            self._client.publish(self._keys.events(task_id), canonical_json(event.model_dump(mode="json")))

    def entries(self, log: str, after: int, count: int | None = None) -> Iterator[tuple[int, str]]:
        """Return the numbers and messages of a log after this number, read in pages."""
        size = count or PAGE_SIZE
        while True:
            with translating_errors():
                page: Any = self._client.xrange(log, min=f"({after}-0", count=size)
            for entry_id, fields in page:
                after = int(entry_id.partition("-")[0])
                yield after, fields["m"]
            if len(page) < size:
                return
