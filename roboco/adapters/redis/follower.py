"""Following a task's channels: subscribe first, then read the logs, then go on live.

Messages carry how far the other channel was, so both are merged into the one order in which they happened,
live as in a replay. Whatever does not fit the numbers is read from the logs.
"""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import redis
from redis.client import PubSub

from roboco.adapters.redis.agenda import RedisLogs
from roboco.adapters.redis.client import connect_subscriber
from roboco.adapters.redis.keys import Keys
from roboco.adapters.redis.scripts import answering
from roboco.errors import TransientError

Record = dict[str, Any]

IDLE = 1.0
"""Seconds without a message after which the logs are looked at again."""
PATIENCE = 60.0
"""Seconds for which a follower tries to reach a Redis that does not answer."""


@dataclass
class Position:
    """The last numbers that a follower has, of one generation of the logs."""

    generation: str = ""
    events: int = 0
    chunks: int = 0

    def fits(self, record: Record) -> bool:
        """Whether the message is the very next one, with nothing of the other channel before it."""
        if record.get("generation") != self.generation:
            return False
        if "chunks" in record:
            return (record["seq"], record["chunks"]) == (self.events + 1, self.chunks)
        return (record["seq"], record["events"]) == (self.chunks + 1, self.events)

    def has(self, record: Record) -> bool:
        """Whether the follower had the message before."""
        mine = self.events if "chunks" in record else self.chunks
        return record.get("generation") == self.generation and int(record["seq"]) <= mine

    def take(self, record: Record) -> Record:
        """Note the message as had, and return it."""
        if "chunks" in record:
            self.events = record["seq"]
        else:
            self.chunks = record["seq"]
        return record


class RedisFollower:
    """Follows one task. Each follower has a connection of its own."""

    def __init__(self, client: redis.Redis, url: str, keys: Keys) -> None:
        self._client = client
        self._url = url
        self._keys = keys
        self._logs = RedisLogs(client, keys)

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
                    raise TransientError(f"redis does not answer for {PATIENCE:g} s: {error}") from error
                time.sleep(0.1)

    def replay(self, task_id: str, position: Position) -> Iterator[Record]:
        """What the logs hold after the position, in order; from the start where a new generation began."""
        generation = self._generation(task_id)
        while generation is not None:
            if generation != position.generation:
                position.generation, position.events, position.chunks = generation, 0, 0
            for record in self._merged(task_id, position):
                if record["generation"] != generation:
                    break
                yield position.take(record)
            else:
                return
            generation = self._generation(task_id)

    def _generation(self, task_id: str) -> str | None:
        with answering():
            generation: Any = self._client.hget(self._keys.state(task_id), "generation")
        return generation if isinstance(generation, str) else None

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
                    yield from self._live(task_id, position, json.loads(message["data"]))

    def _live(self, task_id: str, position: Position, record: Record) -> Iterator[Record]:
        if record.get("type") == "event_error" and not record.get("generation"):
            yield record
        elif position.fits(record):
            yield position.take(record)
        elif not position.has(record):
            yield from self.replay(task_id, position)

    def _merged(self, task_id: str, position: Position) -> Iterator[Record]:
        """Both logs in one order; whoever takes a record moves the position before asking for the next."""
        chunks = self._entries(self._keys.content(task_id), position.chunks)
        events = self._entries(self._keys.events(task_id), position.events)
        chunk, event = next(chunks, None), next(events, None)
        while chunk or event:
            if event and (chunk is None or event["chunks"] < chunk["seq"]):
                if chunk is None and event["chunks"] > position.chunks:
                    chunks = self._entries(self._keys.content(task_id), position.chunks)
                    if (chunk := next(chunks, None)) is not None:
                        continue
                yield event
                event = next(events, None)
            elif chunk:
                if event is None and chunk["events"] > position.events:
                    events = self._entries(self._keys.events(task_id), position.events)
                    if (event := next(events, None)) is not None:
                        continue
                yield chunk
                chunk = next(chunks, None)

    def _entries(self, log: str, after: int) -> Iterator[Record]:
        return (json.loads(message) for _, message in self._logs.entries(log, after))


def _await_subscription(pubsub: PubSub, channels: int) -> None:
    deadline = time.monotonic() + 5
    while channels:
        message = pubsub.get_message(timeout=1)
        if message is not None and message["type"] == "subscribe":
            channels -= 1
        elif time.monotonic() > deadline:
            raise TransientError("redis did not confirm a subscription within 5 s")
