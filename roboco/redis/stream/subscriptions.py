"""The subscriptions of all followers in an event loop, over one connection.

The hub subscribes to the channels of a task while a follower listens. It signals the follower to read the logs when the
server confirms the subscription, after each lost connection, when the follower is too slow, and when the logs have more
than the follower.

One coroutine reads the connection while another one subscribes. redis-py's PubSub does not allow that: it may reconnect
silently, and the reader would not learn that messages are missing.
"""

import asyncio
import math
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import Context
from enum import Enum
from functools import partial
from typing import Any

import redis

from roboco.errors import TransientError
from roboco.process.threads import ThreadPool
from roboco.redis import client
from roboco.redis.keys import Keys
from roboco.redis.server_error import explain
from roboco.redis.stream.position import LiveRecord, Record, StreamPosition, read_record


class PubSubConnection:
    """A connection for channels. If a method raises, close it and open another one."""

    def __init__(self, url: str, keys: Keys) -> None:
        self._connection: Any = client.channel_connection(url)
        self._keys = keys
        self._subscriptions: dict[str, object] = {}
        self._unconfirmed: Counter[str] = Counter()
        self._last_received = time.monotonic()
        self._pinged_at = -math.inf

    async def open(self) -> None:
        """Connect."""
        async with asyncio.timeout(client.TIMEOUT):
            await self._connection.connect()

    async def close(self) -> None:
        """Disconnect without waiting for the server."""
        await self._connection.disconnect(nowait=True)

    async def read(self, on_message: Callable[[str, bytes], None], on_subscribed: Callable[[str], None]) -> None:
        """Call `on_message` with channel and text of each message, and `on_subscribed` with each subscribed channel."""
        while True:
            answer = await self._connection.read_response(timeout=math.inf)
            self._last_received = time.monotonic()
            match answer:
                case [b"message", bytes(channel), bytes(text)]:
                    on_message(channel.decode(), text)
                case [b"subscribe", bytes(channel), _]:
                    self._on_confirmation(channel.decode(), on_subscribed)
                case _:  # the answer to an unsubscription or a ping
                    pass

    async def sync(self, subscriptions: Mapping[str, object]) -> None:
        """Subscribe to the channels of these tasks and no others. Another object for a task is a new subscription."""
        new = [task_id for task_id, topic in subscriptions.items() if self._subscriptions.get(task_id) is not topic]
        gone = [task_id for task_id in self._subscriptions if task_id not in subscriptions]
        self._subscriptions = dict(subscriptions)
        await self._send("UNSUBSCRIBE", gone)
        for task_id in new:
            self._unconfirmed.update(self._channels(task_id))
        await self._send("SUBSCRIBE", new)

    async def check_alive(self) -> None:
        """Ping the server if it has been silent. Raise redis.TimeoutError if it did not answer the last ping."""
        now = time.monotonic()
        if now - self._last_received < client.TIMEOUT:
            return
        if self._pinged_at < self._last_received:
            self._pinged_at = now
            await self._command("PING")
        elif now - self._pinged_at > client.TIMEOUT:
            raise redis.TimeoutError(f"the connection for channels is silent for {now - self._last_received:.0f} s")

    def _on_confirmation(self, channel: str, confirm: Callable[[str], None]) -> None:
        self._unconfirmed[channel] -= 1
        if not self._unconfirmed[channel]:
            del self._unconfirmed[channel]
            confirm(channel)

    async def _send(self, command: str, task_ids: Collection[str]) -> None:
        channels = [channel for task_id in task_ids for channel in self._channels(task_id)]
        if channels:
            await self._command(command, *channels)

    async def _command(self, *words: str) -> None:
        async with asyncio.timeout(client.TIMEOUT):
            await self._connection.send_command(*words, check_health=False)

    def _channels(self, task_id: str) -> tuple[str, str]:
        return self._keys.content(task_id), self._keys.events(task_id)


MAX_QUEUED = 256
"""Live messages that wait for a follower at most. A slower follower reads the logs instead."""


class ControlSignal(Enum):
    """A control signal to a follower, beside messages."""

    CATCH_UP = "read the logs from the position on, then continue with live messages"
    NO_MESSAGES = "no message for a while, and the logs have no more"


class Subscriber:
    """A queue of live messages, or a signal to read them from the logs. The follower moves `position`."""

    def __init__(self, position: StreamPosition) -> None:
        self.position = position
        self.disconnected_since: float | None = None
        self._queue: list[Record] = []  # nearly always empty, and then ten times smaller than a deque
        self._control: ControlSignal | None = None
        self._failure: BaseException | None = None
        self._wake: asyncio.Future[None] | None = None

    @property
    def is_waiting(self) -> bool:
        """True if the follower has received all that was put here."""
        return self._wake is None or not self._wake.done()

    async def receive(self) -> Record | ControlSignal:
        """Wait for the next message or signal, and return it. Raise the error of `fail`, such as TransientError."""
        while True:
            if self._failure is not None:
                raise self._failure
            if self._control is not None:
                word, self._control = self._control, None
                return word
            if self._queue:
                return self._queue.pop(0)
            self._wake = asyncio.get_running_loop().create_future()
            await self._wake

    def put(self, record: Record) -> None:
        """Add a live message, unless the follower has to read the logs, which contain it."""
        if self._control is ControlSignal.CATCH_UP:
            return
        if len(self._queue) < MAX_QUEUED:
            self._queue.append(record)
            self._notify()
        else:
            self.catch_up()

    def catch_up(self) -> None:
        """Drop the waiting messages, which may have gaps, and signal to read the logs instead."""
        self._queue.clear()
        self._control = ControlSignal.CATCH_UP
        self._notify()

    def signal_idle(self) -> None:
        """Signal that there is no message."""
        if self._control is None:
            self._control = ControlSignal.NO_MESSAGES
            self._notify()

    def fail(self, error: BaseException) -> None:
        """Raise this error in the follower."""
        self._failure = error
        self._notify()

    def _notify(self) -> None:
        """Wake the follower, if it waits."""
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)


RECHECK_INTERVAL = 1.0
"""Seconds without a message after which the hub compares logs with followers. The interval doubles each time."""
MAX_RECHECK_INTERVAL = 16.0
"""Seconds at which that interval stops growing."""
UNREACHABLE_TIMEOUT = 60.0
"""Seconds for which a follower waits for a Redis that does not answer."""
RECONNECT_DELAY = 0.2
"""Seconds between two tries to connect."""

LogEnds = Callable[[Sequence[str]], dict[str, StreamPosition]]
"""Returns the ends of the logs of those of the tasks that have logs."""


class Subscription:
    """The subscription of a task, with its followers."""

    def __init__(self, task_id: str) -> None:
        self.task_id = task_id
        self.subscribers: set[Subscriber] = set()
        self.subscribed = False
        self._recheck_interval = RECHECK_INTERVAL
        self._last_message = time.monotonic()

    def put(self, record: Record) -> None:
        """Pass a live message to all followers."""
        self._last_message, self._recheck_interval = time.monotonic(), RECHECK_INTERVAL
        for listener in self.subscribers:
            listener.put(record)

    def confirm(self) -> None:
        """Record that the server confirmed the subscription: later messages arrive, earlier ones are in the logs."""
        self.subscribed = True
        for listener in self.subscribers:
            listener.disconnected_since = None
        self.catch_up()

    def catch_up(self) -> None:
        """Signal all followers to read the logs."""
        for listener in self.subscribers:
            listener.catch_up()

    def on_disconnect(self, error: Exception) -> None:
        """Record that the connection was lost or refused. Fail followers that have waited for PATIENCE seconds."""
        self.subscribed = False
        now = time.monotonic()
        for listener in self.subscribers:
            if listener.disconnected_since is None:
                listener.disconnected_since = now
            elif now - listener.disconnected_since > UNREACHABLE_TIMEOUT:
                listener.fail(TransientError(f"redis does not answer for {UNREACHABLE_TIMEOUT:g} s: {explain(error)}"))

    def fail(self, error: BaseException) -> None:
        """Raise this error in all followers."""
        self.subscribed = False
        for listener in self.subscribers:
            listener.fail(error)

    def is_check_due(self) -> bool:
        """Return True if it is time to compare the logs. Then the next time is later."""
        now = time.monotonic()
        if not self.subscribed or now - self._last_message < self._recheck_interval:
            return False
        self._last_message, self._recheck_interval = now, min(2 * self._recheck_interval, MAX_RECHECK_INTERVAL)
        return True

    def compare_end(self, end: StreamPosition | None) -> None:
        """Signal each waiting follower whose position is not the end of the logs to read them, and the others to check.

        A follower with all messages is signalled too: its task may have ended, and its workspace may be complete only
        now. `reach` is None if the task has no logs.
        """
        for listener in self.subscribers:
            if listener.is_waiting and end in (None, listener.position):
                listener.signal_idle()
            elif listener.is_waiting:
                listener.catch_up()


class SubscriptionHub:
    """The subscriptions of one event loop. It is connected while a follower listens."""

    def __init__(self, url: str, keys: Keys, threads: ThreadPool, log_ends: LogEnds) -> None:
        self._url = url
        self._keys = keys
        self._threads = threads
        self._log_ends = log_ends
        self._subscriptions: dict[str, Subscription] = {}
        self._by_channel: dict[str, Subscription] = {}
        self._changed = asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    @contextmanager
    def subscribed(self, task_id: str, position: StreamPosition) -> Iterator[Subscriber]:
        """Yield a queue of the live messages of the task, until the block ends."""
        if self._running is None:
            self._running = asyncio.create_task(self._run(), name="roboco subscriptions", context=Context())
            self._running.add_done_callback(self._on_reader_done)
        topic = self._subscriptions.get(task_id) or self._subscribe(task_id)
        listener = Subscriber(position)
        topic.subscribers.add(listener)
        if topic.subscribed:
            listener.catch_up()
        else:
            listener.disconnected_since = time.monotonic()
        try:
            yield listener
        finally:
            topic.subscribers.discard(listener)
            if not topic.subscribers:
                self._unsubscribe(topic)

    def _subscribe(self, task_id: str) -> Subscription:
        topic = self._subscriptions[task_id] = Subscription(task_id)
        self._by_channel |= dict.fromkeys((self._keys.content(task_id), self._keys.events(task_id)), topic)
        self._changed.set()
        return topic

    def _unsubscribe(self, topic: Subscription) -> None:
        del self._subscriptions[topic.task_id]
        for channel in (self._keys.content(topic.task_id), self._keys.events(topic.task_id)):
            del self._by_channel[channel]
        self._changed.set()
        if not self._subscriptions and self._running is not None:
            self._running.cancel()
            self._running = None

    def _on_reader_done(self, run: asyncio.Task[None]) -> None:
        """Fail the remaining followers, unless the hub itself ended the reading task."""
        error = None if run.cancelled() else run.exception()
        if self._running is run:
            self._running = None
            for topic in self._subscriptions.values():
                topic.fail(error or TransientError("the task that reads the channels of this event loop was cancelled"))

    async def _run(self) -> None:
        while (
            self._running is asyncio.current_task()
        ):  # a connection that is lost at the same moment can hide the cancellation
            try:
                await self._read_channels()
            except* (redis.RedisError, OSError) as errors:
                for topic in self._subscriptions.values():
                    topic.on_disconnect(errors.exceptions[0])
            await asyncio.sleep(RECONNECT_DELAY)

    async def _read_channels(self) -> None:
        wire = PubSubConnection(self._url, self._keys)
        try:
            await wire.open()
            async with asyncio.TaskGroup() as group:
                group.create_task(wire.read(self._on_message, self._on_subscribed))
                group.create_task(self._sync(wire))
                group.create_task(self._compare_logs())
        finally:
            await wire.close()

    async def _sync(self, wire: PubSubConnection) -> None:
        """Subscribe and unsubscribe as followers start and end, and find a dead connection."""
        while True:
            self._changed.clear()
            await wire.sync(self._subscriptions)
            await wire.check_alive()
            try:
                async with asyncio.timeout(RECHECK_INTERVAL):
                    await self._changed.wait()
            except TimeoutError:
                continue

    async def _compare_logs(self) -> None:
        """Compare the logs of silent tasks with the positions of their followers."""
        while True:
            await asyncio.sleep(RECHECK_INTERVAL / 4)
            due = {topic.task_id: topic for topic in self._subscriptions.values() if topic.is_check_due()}
            if not due:
                continue
            try:
                reach = await self._threads.run(partial(self._log_ends, tuple(due)))
            except TransientError:  # each follower finds the cause when it reads, and waits for Redis there
                for topic in due.values():
                    topic.catch_up()
            else:
                for task_id, topic in due.items():
                    topic.compare_end(reach.get(task_id))

    def _on_message(self, channel: str, text: bytes) -> None:
        topic = self._by_channel.get(channel)
        if topic is None:
            return
        if (record := read_record(text)) is not None:
            topic.put(LiveRecord(record))
        else:
            topic.catch_up()

    def _on_subscribed(self, channel: str) -> None:
        """Start the subscription once its second channel, that of events, is confirmed."""
        topic = self._by_channel.get(channel)
        if topic is not None and channel == self._keys.events(topic.task_id):
            topic.confirm()


class SubscriptionHubs:
    """The subscriptions of each event loop."""

    def __init__(self, url: str, keys: Keys, threads: ThreadPool, log_ends: LogEnds) -> None:
        self._parts = (url, keys, threads, log_ends)
        self._lock = threading.Lock()
        self._hubs: dict[tuple[int, asyncio.AbstractEventLoop], SubscriptionHub] = {}

    def current(self) -> SubscriptionHub:
        """Return the subscriptions of the running event loop. A forked process has separate ones."""
        place = os.getpid(), asyncio.get_running_loop()
        with self._lock:
            if place not in self._hubs:
                open_ones = ((at, feed) for at, feed in self._hubs.items() if at[0] == place[0])
                self._hubs = {at: feed for at, feed in open_ones if not at[1].is_closed()}
                self._hubs[place] = SubscriptionHub(*self._parts)
            return self._hubs[place]
