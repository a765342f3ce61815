"""Following a task's channels: subscribe first, then read the logs, then go on live.

Messages carry how far the other channel was, so both are merged into the one order in which they happened,
live as in a replay. Whatever does not fit the numbers is read from the logs.
"""

import json
import math
import time
from collections.abc import Generator, Iterator, Sequence
from typing import Any

import redis
from redis.client import PubSub

from roboco.adapters.redis.client import connect_subscriber
from roboco.adapters.redis.keys import Keys
from roboco.adapters.redis.logs import RedisLogs
from roboco.adapters.redis.refusal import refusal
from roboco.adapters.redis.scripts import answering
from roboco.adapters.redis.stream.position import Position, Record, read_record
from roboco.adapters.redis.stream.subscriptions import Feeds
from roboco.adapters.threads import Threads
from roboco.errors import TransientError

IDLE = 1.0
"""Seconds without a message after which the logs are looked at again."""
FIRST_IDLE = 0.05
"""The same for who waits for a change and has just begun: the task may be ending, with its last event told before."""
PATIENCE = 60.0
"""Seconds for which a follower tries to reach a Redis that does not answer."""
READERS = 8
"""How many threads read logs for the followers in event loops."""


class RedisFollower:
    """Follows one task. Each follower has a connection of its own; those in event loops share `feeds` and `threads`."""

    def __init__(self, client: redis.Redis, url: str, keys: Keys) -> None:
        self._client = client
        self._url = url
        self._keys = keys
        self._logs = RedisLogs(client, keys)
        self.threads = Threads(READERS)
        self.feeds = Feeds(url, keys, self.threads, self.reach)

    def follow(self, task_id: str, position: Position) -> Iterator[Record | None]:
        """The messages after the position, each once and in order; None when the logs hold no more for now.

        It never ends by itself. A lost connection is made anew; TransientError after PATIENCE seconds without one.
        """
        answered = time.monotonic()
        while True:
            try:
                for record in self._connected(task_id, position):
                    answered = time.monotonic()
                    yield record
            except (redis.ConnectionError, redis.TimeoutError, TransientError) as error:
                if time.monotonic() - answered > PATIENCE:
                    raise TransientError(
                        f"redis does not answer for {PATIENCE:g} s: {refusal(error) or error}"
                    ) from error
                time.sleep(0.1)

    def stirs(self, task_id: str, until: float = math.inf) -> Generator[Record | None]:
        """Each event of the task as it comes; None at first, after a loss, now and then, and at the time `until`.

        None: it may have changed. `until` is of the monotonic clock.
        """
        while True:
            try:
                yield from self._heard(task_id, until)
            except (redis.ConnectionError, redis.TimeoutError, TransientError):
                yield None  # whoever looks finds out what it is, and is patient
                time.sleep(0.1)

    def replay(self, task_id: str, position: Position, page: int | None = None) -> Iterator[Record]:
        """What the logs hold after the position, in order; from the start where a new generation began.

        `page` is how many messages of a log are read at a time.
        """
        generation = self._generation(task_id)
        while generation is not None:
            if generation != position.generation:
                position.begin(generation)
            for record in self._merged(task_id, position, page):
                if record["generation"] != generation:
                    break
                yield position.take(record)
            else:
                return
            generation = self._generation(task_id)

    def reach(self, task_ids: Sequence[str]) -> dict[str, Position]:
        """Return the last numbers in the logs of those tasks that have logs, by one request for all.

        A follower may read nothing but the logs: the state of a task holds more than a follower may know.
        """
        with answering(), self._client.pipeline(transaction=False) as pipe:
            for task_id in task_ids:
                pipe.xrevrange(self._keys.events(task_id), count=1)
                pipe.xrevrange(self._keys.content(task_id), count=1)
            pages = iter(pipe.execute())
        found = {task_id: _last(next(pages), next(pages)) for task_id in task_ids}
        return {task_id: position for task_id, position in found.items() if position is not None}

    def _generation(self, task_id: str) -> str | None:
        """The generation of the logs, which each of their messages names; None if the logs are empty."""
        for log in (self._keys.events(task_id), self._keys.content(task_id)):
            with answering():
                page: Any = self._client.xrange(log, count=1)
            if page:
                return str(_records(page)[0]["generation"])
        return None

    def _connected(self, task_id: str, position: Position) -> Iterator[Record | None]:
        channels = [self._keys.content(task_id), self._keys.events(task_id)]
        with connect_subscriber(self._url) as client, client.pubsub() as pubsub:
            pubsub.subscribe(*channels)
            _await_subscription(pubsub, len(channels))
            yield from self.replay(task_id, position)
            yield None
            while True:
                message = pubsub.get_message(timeout=IDLE)
                if message is None:
                    yield from self.replay(task_id, position)
                    yield None
                elif message["type"] == "message":
                    yield from self._live(task_id, position, read_record(message["data"]))

    def _heard(self, task_id: str, until: float) -> Iterator[Record | None]:
        with connect_subscriber(self._url) as client, client.pubsub() as pubsub:
            pubsub.subscribe(self._keys.events(task_id))
            _await_subscription(pubsub, 1)
            yield None
            idle = FIRST_IDLE
            while True:
                left = until - time.monotonic()
                message = pubsub.get_message(timeout=min(idle, max(0.0, left)))
                idle = min(2 * idle, IDLE)
                if message is None or left <= 0 or message["type"] == "subscribe":  # anew, after a loss
                    yield None
                elif message["type"] == "message":
                    yield read_record(message["data"])

    def _live(self, task_id: str, position: Position, record: Record | None) -> Iterator[Record]:
        if record is None:
            yield from self.replay(task_id, position)
        elif record.get("type") == "event_error" and not record.get("generation"):
            yield record
        elif position.fits(record):
            yield position.take(record)
        elif not position.has(record):
            yield from self.replay(task_id, position)

    def _merged(self, task_id: str, position: Position, page: int | None) -> Iterator[Record]:
        """Both logs in one order; whoever takes a record moves the position before asking for the next."""
        chunks = self._entries(self._keys.content(task_id), position.chunks, page)
        events = self._entries(self._keys.events(task_id), position.events, page)
        chunk, event = next(chunks, None), next(events, None)
        while chunk or event:
            if event and (chunk is None or event["chunks"] < chunk["seq"]):
                if chunk is None and event["chunks"] > position.chunks:
                    chunks = self._entries(self._keys.content(task_id), position.chunks, page)
                    if (chunk := next(chunks, None)) is not None:
                        continue
                yield event
                event = next(events, None)
            elif chunk:
                if event is None and chunk["events"] > position.events:
                    events = self._entries(self._keys.events(task_id), position.events, page)
                    if (event := next(events, None)) is not None:
                        continue
                yield chunk
                chunk = next(chunks, None)

    def _entries(self, log: str, after: int, page: int | None) -> Iterator[Record]:
        return (json.loads(message) for _, message in self._logs.entries(log, after, page))


def _last(events: Any, chunks: Any) -> Position | None:
    """The position at the newest entries of both logs, each a page of at most one entry."""
    records = [*_records(events), *_records(chunks)]
    if not records:
        return None
    position = Position(records[0]["generation"])
    for record in records:
        if record["generation"] == position.generation:
            position.take(record)
    return position


def _records(page: Any) -> list[Record]:
    return [json.loads(fields["m"]) for _, fields in page]


def _await_subscription(pubsub: PubSub, channels: int) -> None:
    deadline = time.monotonic() + 5
    while channels:
        message = pubsub.get_message(timeout=1)
        if message is not None and message["type"] == "subscribe":
            channels -= 1
        elif time.monotonic() > deadline:
            raise TransientError("redis did not confirm a subscription within 5 s")
