"""The subscriptions of all followers in an event loop, over one connection.

The hub subscribes to the channels of a task while a follower listens. It signals the follower to read the logs when the
server confirms the subscription, after each lost connection, when the follower is too slow, and when the logs have more
than the follower.
"""

import asyncio
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import Context
from functools import partial

import redis

from roboco.adapters.redis.keys import Keys
from roboco.adapters.redis.refusal import refusal
from roboco.adapters.redis.stream.position import Position, Record, read_record
from roboco.adapters.redis.stream.pubsub import Wire
from roboco.adapters.redis.stream.subscriber import Listener
from roboco.adapters.threads import Threads
from roboco.errors import TransientError

IDLE = 1.0
"""Seconds without a message after which the hub compares logs with followers. The interval doubles each time."""
LONGEST_IDLE = 16.0
"""Seconds at which that interval stops growing."""
PATIENCE = 60.0
"""Seconds for which a follower waits for a Redis that does not answer."""
PAUSE = 0.2
"""Seconds between two tries to connect."""

Reach = Callable[[Sequence[str]], dict[str, Position]]
"""Returns the ends of the logs of those of the tasks that have logs."""


class Topic:
    """The subscription of a task, with its followers."""

    def __init__(self, task_id: str) -> None:
        self.task_id = task_id
        self.listeners: set[Listener] = set()
        self.subscribed = False
        self._idle = IDLE
        self._heard = time.monotonic()

    def put(self, record: Record) -> None:
        """Pass a live message to all followers."""
        self._heard, self._idle = time.monotonic(), IDLE
        for listener in self.listeners:
            listener.put(record)

    def begin(self) -> None:
        """Record that the server confirmed the subscription: later messages arrive, earlier ones are in the logs."""
        self.subscribed = True
        for listener in self.listeners:
            listener.waits_since = None
        self.read_on()

    def read_on(self) -> None:
        """Signal all followers to read the logs."""
        for listener in self.listeners:
            listener.read_on()

    def lose(self, error: Exception) -> None:
        """Record that the connection was lost or refused. Fail followers that have waited for PATIENCE seconds."""
        self.subscribed = False
        now = time.monotonic()
        for listener in self.listeners:
            if listener.waits_since is None:
                listener.waits_since = now
            elif now - listener.waits_since > PATIENCE:
                why = refusal(error) or error
                listener.fail(TransientError(f"redis does not answer for {PATIENCE:g} s: {why}"))

    def fail(self, error: BaseException) -> None:
        """Raise this error in all followers."""
        self.subscribed = False
        for listener in self.listeners:
            listener.fail(error)

    def due(self) -> bool:
        """Return True if it is time to compare the logs. Then the next time is later."""
        now = time.monotonic()
        if not self.subscribed or now - self._heard < self._idle:
            return False
        self._heard, self._idle = now, min(2 * self._idle, LONGEST_IDLE)
        return True

    def compare(self, reach: Position | None) -> None:
        """Signal each waiting follower whose position is not the end of the logs to read them, and the others to check.

        A follower with all messages is signalled too: its task may have ended, and its workspace may be complete only
        now. `reach` is None if the task has no logs.
        """
        for listener in self.listeners:
            if listener.idle and reach in (None, listener.position):
                listener.quiet()
            elif listener.idle:
                listener.read_on()


class Feed:
    """The subscriptions of one event loop. It is connected while a follower listens."""

    def __init__(self, url: str, keys: Keys, threads: Threads, reach: Reach) -> None:
        self._url = url
        self._keys = keys
        self._threads = threads
        self._reach = reach
        self._topics: dict[str, Topic] = {}
        self._channels: dict[str, Topic] = {}
        self._changed = asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    @contextmanager
    def listening(self, task_id: str, position: Position) -> Iterator[Listener]:
        """Yield a queue of the live messages of the task, until the block ends."""
        if self._running is None:
            self._running = asyncio.create_task(self._run(), name="roboco feed", context=Context())
            self._running.add_done_callback(self._ended)
        topic = self._topics.get(task_id) or self._begin(task_id)
        listener = Listener(position)
        topic.listeners.add(listener)
        if topic.subscribed:
            listener.read_on()
        else:
            listener.waits_since = time.monotonic()
        try:
            yield listener
        finally:
            topic.listeners.discard(listener)
            if not topic.listeners:
                self._end(topic)

    def _begin(self, task_id: str) -> Topic:
        topic = self._topics[task_id] = Topic(task_id)
        self._channels |= dict.fromkeys((self._keys.content(task_id), self._keys.events(task_id)), topic)
        self._changed.set()
        return topic

    def _end(self, topic: Topic) -> None:
        del self._topics[topic.task_id]
        for channel in (self._keys.content(topic.task_id), self._keys.events(topic.task_id)):
            del self._channels[channel]
        self._changed.set()
        if not self._topics and self._running is not None:
            self._running.cancel()
            self._running = None

    def _ended(self, run: asyncio.Task[None]) -> None:
        """Fail the remaining followers, unless the hub itself ended the reading task."""
        error = None if run.cancelled() else run.exception()
        if self._running is run:
            self._running = None
            for topic in self._topics.values():
                topic.fail(error or TransientError("the task that reads the channels of this event loop was cancelled"))

    async def _run(self) -> None:
        while (
            self._running is asyncio.current_task()
        ):  # a connection that is lost at the same moment can hide the cancellation
            try:
                await self._connected()
            except* (redis.RedisError, OSError) as errors:
                for topic in self._topics.values():
                    topic.lose(errors.exceptions[0])
            await asyncio.sleep(PAUSE)

    async def _connected(self) -> None:
        wire = Wire(self._url, self._keys)
        try:
            await wire.open()
            async with asyncio.TaskGroup() as group:
                group.create_task(wire.read(self._hear, self._confirmed))
                group.create_task(self._keep(wire))
                group.create_task(self._look())
        finally:
            await wire.close()

    async def _keep(self, wire: Wire) -> None:
        """Subscribe and unsubscribe as followers start and end, and find a dead connection."""
        while True:
            self._changed.clear()
            await wire.match(self._topics)
            await wire.check()
            try:
                async with asyncio.timeout(IDLE):
                    await self._changed.wait()
            except TimeoutError:
                continue

    async def _look(self) -> None:
        """Compare the logs of silent tasks with the positions of their followers."""
        while True:
            await asyncio.sleep(IDLE / 4)
            due = {topic.task_id: topic for topic in self._topics.values() if topic.due()}
            if not due:
                continue
            try:
                reach = await self._threads.run(partial(self._reach, tuple(due)))
            except TransientError:  # each follower finds the cause when it reads, and waits for Redis there
                for topic in due.values():
                    topic.read_on()
            else:
                for task_id, topic in due.items():
                    topic.compare(reach.get(task_id))

    def _hear(self, channel: str, text: bytes) -> None:
        topic = self._channels.get(channel)
        if topic is None:
            return
        if (record := read_record(text)) is not None:
            topic.put(record)
        else:
            topic.read_on()

    def _confirmed(self, channel: str) -> None:
        """Start the subscription once its second channel, that of events, is confirmed."""
        topic = self._channels.get(channel)
        if topic is not None and channel == self._keys.events(topic.task_id):
            topic.begin()


class Feeds:
    """The subscriptions of each event loop."""

    def __init__(self, url: str, keys: Keys, threads: Threads, reach: Reach) -> None:
        self._parts = (url, keys, threads, reach)
        self._lock = threading.Lock()
        self._feeds: dict[tuple[int, asyncio.AbstractEventLoop], Feed] = {}

    def here(self) -> Feed:
        """Return the subscriptions of the running event loop. A forked process has separate ones."""
        place = os.getpid(), asyncio.get_running_loop()
        with self._lock:
            if place not in self._feeds:
                open_ones = ((at, feed) for at, feed in self._feeds.items() if at[0] == place[0])
                self._feeds = {at: feed for at, feed in open_ones if not at[1].is_closed()}
                self._feeds[place] = Feed(*self._parts)
            return self._feeds[place]
