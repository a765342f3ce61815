"""A follower in an event loop: one connection for all followers, and threads that read logs (`follower.py`)."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from itertools import islice

from roboco.domain.stream.event_file import refers_to_step
from roboco.errors import TransientError
from roboco.redis.stream.follower import RedisFollower, unreachable_error
from roboco.redis.stream.log_merger import ArchiveNeeded, is_unnumbered
from roboco.redis.stream.position import LiveRecord, Record, StreamPosition
from roboco.redis.stream.subscriptions import RECHECK_INTERVAL, ControlSignal

BATCH_SIZE = 100
"""Messages that are read from the logs at a time: a follower that has fallen behind holds no more."""
UNREACHABLE_TIMEOUT = 60.0
"""Seconds for which a follower tries to read the logs from a Redis or a workspace that does not answer."""
FIRST_RECHECK_INTERVAL = 0.05
"""Seconds without a message after which a new iterator of changes yields None: the task may be ending, with its last
event published before. The interval doubles, up to that of the subscriptions."""
RETRY_DELAY = 0.5
"""Seconds between two tries."""


class AsyncFollower:
    """Follows tasks in the running event loop. The RedisFollower owns what all followers share."""

    def __init__(self, follower: RedisFollower) -> None:
        self._follower = follower

    async def follow(self, task_id: str, position: StreamPosition) -> AsyncGenerator[Record | None, None]:
        """Yield the messages after the position, each once and in order, and None when the logs have no more for now.

        The iterator never ends. It reconnects a lost connection. Raise TransientError after UNREACHABLE_TIMEOUT without
        one.
        """
        with self._follower.hubs.current().subscribed(task_id, position) as listener:
            while True:
                word = await listener.receive()
                if word is ControlSignal.CATCH_UP:
                    async with aclosing(self._replay(task_id, position)) as records:
                        async for record in records:
                            yield record
                            del record  # a silent follower holds no message
                    yield None
                elif word is ControlSignal.NO_MESSAGES:
                    yield None
                elif is_unnumbered(word):
                    yield word
                elif position.is_next(word) and (whole := await self._whole(task_id, word)) is not None:
                    yield position.advance(whole)
                    del whole  # a silent follower holds no message
                elif not position.already_seen(word):
                    listener.catch_up()

    async def changes(self, task_id: str) -> AsyncGenerator[Record | None, None]:
        """Yield each event of the task as it arrives, and None whenever the task may have changed unnoticed.

        That is at first, after a lost connection, and now and then.
        """
        idle = FIRST_RECHECK_INTERVAL
        with self._follower.hubs.current().subscribed(task_id, StreamPosition()) as listener:
            while True:
                try:
                    async with asyncio.timeout(idle if idle < RECHECK_INTERVAL else None):
                        word = await listener.receive()
                except TimeoutError:
                    word, idle = ControlSignal.NO_MESSAGES, 2 * idle
                if isinstance(word, ControlSignal):
                    yield None
                elif word.get("type") != "content_chunk":
                    yield word

    async def _whole(self, task_id: str, word: Record) -> Record | None:
        """Return the message with its step, which is read once for all followers, or None if it cannot be read now."""
        if not refers_to_step(word) or not isinstance(word, LiveRecord):
            return None if refers_to_step(word) else word
        if word.whole is None:
            read = partial(self._follower.with_large_step, task_id, word)
            word.whole = asyncio.ensure_future(self._follower.archive_threads.run(lambda: LiveRecord(read())))
        try:
            return await asyncio.shield(word.whole)
        except TransientError:
            word.whole = None
            return None

    async def _replay(self, task_id: str, position: StreamPosition) -> AsyncGenerator[Record, None]:
        silent_since: float | None = None
        reading = _Reading(self._follower, task_id, position)
        while True:
            try:
                records = await reading.next_batch()
            except ArchiveNeeded:
                reading = _Reading(self._follower, task_id, position, with_archive=True)
                continue
            except TransientError as error:
                reading = _Reading(self._follower, task_id, position, reading.with_archive)
                silent_since = silent_since or time.monotonic()
                if time.monotonic() - silent_since > UNREACHABLE_TIMEOUT:
                    raise unreachable_error(error, UNREACHABLE_TIMEOUT) from error
                await asyncio.sleep(RETRY_DELAY)
                continue
            silent_since = None
            for record in records:
                yield _advance(position, record)
            if reading.position.generation != position.generation:
                position.reset(reading.position.generation)
            if len(records) < BATCH_SIZE:
                return


def _advance(position: StreamPosition, record: Record) -> Record:
    """Move the position behind a message from the logs, maybe into a new generation. Return the message."""
    if is_unnumbered(record):
        return record
    if record["generation"] != position.generation:
        position.reset(record["generation"])
    return position.advance(record)


class _Reading:
    """A replay of the logs in batches. `position` is the one after the last batch, maybe in a new generation.

    With the archive it runs in other threads, so that a slow workspace delays no follower that needs the logs alone.
    """

    def __init__(
        self, follower: RedisFollower, task_id: str, position: StreamPosition, with_archive: bool = False
    ) -> None:
        self.position = replace(position)
        self.with_archive = with_archive
        self._threads = follower.archive_threads if with_archive else follower.threads
        self._records = follower.replay(task_id, self.position, BATCH_SIZE, with_archive)

    async def next_batch(self) -> list[Record]:
        """Return the next messages, fewer than BATCH_SIZE if the logs have no more.

        Raise ArchiveNeeded, and end, if the logs lack events and this reads them alone.
        """
        return await self._threads.run(lambda: list(islice(self._records, BATCH_SIZE)))
