"""One connection of an event loop, subscribed to the channels of many tasks.

One coroutine reads while another one subscribes. redis-py's PubSub does not allow that: it may reconnect silently, and
the reader would not learn that messages are missing.
"""

import asyncio
import math
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import Any

import redis

from roboco.redis import client
from roboco.redis.keys import Keys


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
