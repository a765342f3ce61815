"""The logs of a task, which its follower reads: it subscribes to both channels, reads these logs, and goes on live.

Stream order: each message has a number in its channel and carries the number that the other channel had reached. So a
follower merges both channels into the one order in which they were published, from the logs as from live messages. If a
live message is not the next one by these numbers, messages are missing, and the follower reads them from the logs.

Because it subscribes before it reads the logs, no message falls between the two. Older events, which are trimmed from
the log, come from the workspace. A new generation means that Redis may
have lost the end of the logs: the follower then starts again at the first message of that generation.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import redis

from roboco.domain.stream.event_file import refers_to_step, with_step
from roboco.errors import TransientError
from roboco.process.threads import ThreadPool
from roboco.redis.keys import Keys
from roboco.redis.logs import PAGE_SIZE, RedisEventLogs
from roboco.redis.scripts import translating_errors
from roboco.redis.stream.log_merger import (
    ArchiveNeeded,
    LogMerger,
    ReadArchive,
    UnreachableArchive,
    is_unnumbered,
    lost_step,
)
from roboco.redis.stream.position import Record, StreamPosition
from roboco.redis.stream.subscriptions import SubscriptionHubs
from roboco.redis.task_store import ReadLargeSteps, no_steps

READER_THREADS = 8
"""Threads that read logs for the followers in event loops."""
ARCHIVE_THREADS = 8
"""Threads that read archived events for them. A workspace may be slow, so it does not delay those that read logs."""


class RedisFollower:
    """Reads the logs of tasks for their followers (`async_follower.py`), which share `hubs` and the threads.

    `archive` reads the events that are trimmed from the logs, and `steps` those of the history that are too large for
    an event.
    """

    def __init__(
        self, client: redis.Redis, url: str, keys: Keys, archive: ReadArchive, steps: ReadLargeSteps = no_steps
    ) -> None:
        self._client = client
        self._archive = archive
        self._steps = steps
        self._keys = keys
        self._logs = RedisEventLogs(client, keys)
        self.threads = ThreadPool(READER_THREADS)
        self.archive_threads = ThreadPool(ARCHIVE_THREADS)
        self.hubs = SubscriptionHubs(url, keys, self.threads, self.log_ends)

    def replay(
        self, task_id: str, position: StreamPosition, page: int | None = None, with_archive: bool = True
    ) -> Iterator[Record]:
        """Yield the messages of the logs after the position, in order; of a new generation from its first message.

        `page` is the number of messages of a log that are read at a time. Without the archive, raise ArchiveNeeded if
        the logs lack events, or the step of an event.
        """
        archive = self._archive if with_archive else None
        generation = self._generation(task_id)
        while generation is not None:
            if generation != position.generation:
                position.reset(generation)
            names = self._keys.content(task_id), self._keys.events(task_id)
            for record in LogMerger(self._logs.page, archive, task_id, names, page or PAGE_SIZE).merge(position):
                if is_unnumbered(record):
                    yield record
                    continue
                if record["generation"] != generation:
                    break
                yield position.advance(self.with_large_step(task_id, record, with_archive))
            else:
                return
            generation = self._generation(task_id)

    def with_large_step(self, task_id: str, record: Record, with_archive: bool = True) -> Record:
        """Return the message with its step, if it refers to one, or an error in its place if the history lacks that."""
        if not refers_to_step(record):
            return record
        if not with_archive:
            raise ArchiveNeeded
        try:
            step = next(iter(self._steps(task_id, record["step_seq"])), None)
        except TransientError as error:
            raise UnreachableArchive(str(error)) from error
        return with_step(record, step) if step is not None else lost_step(record)

    def log_ends(self, task_ids: Sequence[str]) -> dict[str, StreamPosition]:
        """Return the last positions in the logs of those tasks that have logs, in one round trip.

        A follower's Redis user may read nothing but the logs, because the state of a task holds more.
        """
        with translating_errors(), self._client.pipeline(transaction=False) as pipe:
            for task_id in task_ids:
                pipe.xrevrange(self._keys.events(task_id), count=1)
                pipe.xrevrange(self._keys.content(task_id), count=1)
            pages = iter(pipe.execute())
        found = {task_id: _end_position(next(pages), next(pages)) for task_id in task_ids}
        return {task_id: position for task_id, position in found.items() if position is not None}

    def _generation(self, task_id: str) -> str | None:
        """Return the generation of the logs, which each message names, or None if the logs are empty."""
        for log in (self._keys.events(task_id), self._keys.content(task_id)):
            with translating_errors():
                page: Any = self._client.xrange(log, count=1)
            if page:
                return str(_parse_page(page)[0]["generation"])
        return None


def unreachable_error(error: Exception, seconds: float) -> TransientError:
    """Return the error of a follower that gives up after these seconds. It names the server that does not answer."""
    server = "the workspace" if isinstance(error, UnreachableArchive) else "redis"
    return TransientError(f"{server} does not answer for {seconds:g} s: {error}")


def _end_position(events: Any, chunks: Any) -> StreamPosition | None:
    """Return the position at the newest entries of both logs, or None if they are empty.

    Each argument is a page of at most one entry.
    """
    records = [*_parse_page(events), *_parse_page(chunks)]
    if not records:
        return None
    position = StreamPosition(records[0]["generation"])
    for record in records:
        if record["generation"] == position.generation:
            position.advance(record)
    return position


def _parse_page(page: Any) -> list[Record]:
    return [json.loads(fields["m"]) for _, fields in page]
