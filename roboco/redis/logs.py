"""The logs of both channels of a task on Redis: the events of its execution, and the content that its turns publish."""

from collections.abc import Iterator
from typing import Any

import redis

from roboco.domain.canonical_json import canonical_json
from roboco.domain.stream.event import AnyEvent
from roboco.ports.logs import LogTrim
from roboco.redis.keys import Keys
from roboco.redis.scripts import call_script, translating_errors

PAGE_SIZE = 500
"""Entries that are read or sent at a time."""


class RedisEventLogs:
    """The logs of both channels of a task: one Redis stream for each."""

    def __init__(self, client: redis.Redis, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    def events(self, task_id: str, after: int) -> Iterator[bytes]:
        """Return the messages of the execution channel after this number that Redis still has, oldest first."""
        return (message.encode() for _, message in self.entries(self._keys.events(task_id), after))

    def chunks(self, task_id: str, after: int) -> Iterator[bytes]:
        """Return the messages of the content channel after this number that Redis still has, oldest first."""
        return (message.encode() for _, message in self.entries(self._keys.content(task_id), after))

    def trim(self, task_id: str, trim: LogTrim) -> bool:
        """Remove archived events, and old chunks. Return False if another call has trimmed the logs since."""
        names = [self._keys.state(task_id), self._keys.events(task_id), self._keys.content(task_id)]
        bounds = [trim.generation, trim.first, trim.archived, trim.keep_from, trim.removed_bytes, trim.chunks_from]
        with translating_errors():
            return bool(call_script(self._client, "trim_logs", names, bounds))

    def publish_unlogged(self, task_id: str, event: AnyEvent) -> None:
        """Publish an event of a task that does not exist. The event has no number, and no log stores it."""
        with translating_errors():
            self._client.publish(self._keys.events(task_id), canonical_json(event.model_dump(mode="json")))

    def entries(self, log: str, after: int) -> Iterator[tuple[int, str]]:
        """Yield the numbers and messages of a log after this number, read in pages."""
        while page := self.page(log, after, PAGE_SIZE):
            yield from page
            if len(page) < PAGE_SIZE:
                return
            after = page[-1][0]

    def page(self, log: str, after: int, size: int) -> list[tuple[int, str]]:
        """Return at most `size` numbers and messages of a log after this number, at one moment."""
        with translating_errors():
            page: Any = self._client.xrange(log, min=f"({after}-0", count=size)
        return [(int(entry_id.partition("-")[0]), fields["m"]) for entry_id, fields in page]
