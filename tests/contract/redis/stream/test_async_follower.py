"""Followers in event loops: their shared connection, and followers that are slow, cancelled or disconnected."""

import asyncio
import json
import os
from contextlib import aclosing
from typing import Any

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from roboco.errors import TransientError
from roboco.local.process import free_port
from roboco.local.valkey import ValkeyServer
from roboco.redis.stream import async_follower
from roboco.redis.stream import subscriptions as redis_subscriptions
from roboco.redis.stream.async_follower import AsyncFollower
from roboco.redis.stream.follower import RedisFollower
from roboco.redis.stream.position import StreamPosition
from roboco.redis.stream.subscriptions import MAX_QUEUED, ControlSignal
from tests.contract.redis.stream.publisher import Publisher, eventually, no_archive, receive, text_of
from tests.contract.redis.task_on_redis import TaskOnRedis
from tests.contract.samples import TASK

pytestmark = pytest.mark.redis


@pytest.fixture(autouse=True)
def _short_recheck_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_subscriptions, "RECHECK_INTERVAL", 0.1)


@pytest.fixture
def shared(valkey: ValkeyServer, redis_task: TaskOnRedis) -> RedisFollower:
    """Return the follower whose connection all followers of a loop share."""
    return RedisFollower(redis_task.client, valkey.url, redis_task.keys, no_archive)


def count_subscriptions(task: TaskOnRedis) -> int:
    """Return the number of connections that subscribe to the task's content channel."""
    client: Any = task.client
    return int(client.pubsub_numsub(task.keys.content(TASK))[0][1])


async def publish_turns(publisher: Publisher, turns: int = 12) -> None:
    """Publish this number of turns, and the last message."""
    for _ in range(turns):
        await asyncio.to_thread(publisher.publish_turn)
    publisher.publish_end()


def test_all_followers_of_a_loop_share_one_connection(shared: RedisFollower, redis_task: TaskOnRedis) -> None:
    async def main() -> None:
        publisher = Publisher(redis_task)
        publisher.create_task()
        received: list[list[str]] = [[] for _ in range(50)]
        async with asyncio.TaskGroup() as group:
            for own in received:
                group.create_task(receive(AsyncFollower(shared).follow(TASK, StreamPosition()), own))
            await eventually(lambda: count_subscriptions(redis_task), "a connection subscribes")
            await publish_turns(publisher)
            assert count_subscriptions(redis_task) == 1
        assert received == [publisher.published] * 50
        await eventually(lambda: not count_subscriptions(redis_task), "no connection subscribes")

    asyncio.run(main())


def test_a_slow_follower_continues_from_the_logs(shared: RedisFollower, redis_task: TaskOnRedis) -> None:
    """The follower takes one message, and pauses while more messages arrive than its queue holds."""

    async def main() -> None:
        publisher = Publisher(redis_task)
        publisher.create_task()
        async with aclosing(AsyncFollower(shared).follow(TASK, StreamPosition())) as records:
            received = [text_of(record) for record in [await anext(records)] if record is not None]
            (subscription,) = shared.hubs.current()._subscriptions.values()
            (subscriber,) = subscription.subscribers
            while len(publisher.published) < 2 * MAX_QUEUED:
                await asyncio.to_thread(publisher.publish_turn)
                assert len(subscriber._queue) <= MAX_QUEUED
            await eventually(lambda: subscriber._control is ControlSignal.CATCH_UP, "it receives CATCH_UP")
            assert not subscriber._queue
            publisher.publish_end()
            await receive(records, received)
        assert received == publisher.published

    asyncio.run(main())


@pytest.mark.parametrize("moment", [0, 1, 2, 3, 5, 8, 13, 34, 144])
def test_a_follower_that_is_cancelled_at_any_moment_leaves_nothing(
    shared: RedisFollower, redis_task: TaskOnRedis, moment: int
) -> None:
    """The follower is cancelled after `moment` rounds of the loop, while another one starts to follow the same task."""

    async def main() -> None:
        publisher = Publisher(redis_task)
        publisher.create_task()
        received: list[str] = []
        cancelled = asyncio.create_task(receive(AsyncFollower(shared).follow(TASK, StreamPosition()), []))
        for _ in range(moment):
            await asyncio.sleep(0)
        staying = asyncio.create_task(receive(AsyncFollower(shared).follow(TASK, StreamPosition()), received))
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        await publish_turns(publisher, 4)
        await asyncio.wait_for(staying, 60)
        assert received == publisher.published
        assert not shared.hubs.current()._subscriptions
        await eventually(lambda: len(asyncio.all_tasks()) == 1, "nothing else runs in the loop")
        await eventually(lambda: not count_subscriptions(redis_task), "no connection subscribes")

    asyncio.run(main())


def test_followers_ignore_malformed_messages_on_a_channel(shared: RedisFollower, redis_task: TaskOnRedis) -> None:
    """Any client of Redis can publish to a channel. Other messages on the same connection are still received."""

    async def main() -> None:
        publisher = Publisher(redis_task)
        publisher.create_task()
        received: list[str] = []
        following = asyncio.create_task(receive(AsyncFollower(shared).follow(TASK, StreamPosition()), received))
        await eventually(lambda: received == publisher.published, "the follower receives messages")
        for text in ("", "{", "\x00" * 100, b"\xff\xfe", "1", "{}", "[" * 100_000):
            redis_task.client.publish(redis_task.keys.events(TASK), text)
        await publish_turns(publisher)
        await asyncio.wait_for(following, 60)
        assert received == publisher.published

    asyncio.run(main())


class FailingRedis(redis.Redis):
    """A client whose nth command fails once; `left` counts down to it."""

    left = 0

    def execute_command(self, *args: Any, **options: Any) -> Any:
        """Send the command, or raise ConnectionError in its place."""
        self.left -= 1
        if self.left == 0:
            raise redis.ConnectionError("the connection is lost")
        execute: Any = super().execute_command
        return execute(*args, **options)


@pytest.mark.parametrize("nth", range(1, 8))
def test_a_connection_error_while_the_logs_are_read_loses_nothing(
    redis_task: TaskOnRedis, valkey: ValkeyServer, monkeypatch: pytest.MonkeyPatch, nth: int
) -> None:
    monkeypatch.setattr(async_follower, "BATCH_SIZE", 10)
    monkeypatch.setattr(async_follower, "RETRY_DELAY", 0.01)
    publisher = Publisher(redis_task)
    publisher.create_task()
    for _ in range(8):
        publisher.publish_turn()
    publisher.publish_end()
    received: list[str] = []
    with FailingRedis.from_url(valkey.url, decode_responses=True) as client:
        client.left = nth
        shared = RedisFollower(client, valkey.url, redis_task.keys, no_archive)
        asyncio.run(asyncio.wait_for(receive(AsyncFollower(shared).follow(TASK, StreamPosition()), received), 60))
        assert client.left < 0
    assert received == publisher.published


def test_logs_that_stay_unreadable_raise_a_transient_error(
    redis_task: TaskOnRedis, valkey: ValkeyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection that subscribes to the channels works all the time."""
    monkeypatch.setattr(async_follower, "UNREACHABLE_TIMEOUT", 0.3)
    monkeypatch.setattr(async_follower, "RETRY_DELAY", 0.01)
    with redis.Redis(port=free_port(), retry=Retry(NoBackoff(), 0)) as client:
        shared = RedisFollower(client, valkey.url, redis_task.keys, no_archive)
        with pytest.raises(TransientError, match=r"redis does not answer for 0\.3 s"):
            asyncio.run(asyncio.wait_for(receive(AsyncFollower(shared).follow(TASK, StreamPosition()), []), 60))


def test_a_forked_process_opens_its_own_connection(shared: RedisFollower, redis_task: TaskOnRedis) -> None:
    publisher = Publisher(redis_task)
    publisher.create_task()
    publisher.publish_turn()
    publisher.publish_end()

    def follow() -> list[str]:
        words: list[str] = []
        asyncio.run(asyncio.wait_for(receive(AsyncFollower(shared).follow(TASK, StreamPosition()), words), 60))
        return words

    assert follow() == publisher.published
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.write(writing, json.dumps(follow()).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as status_event:
        assert json.load(status_event) == publisher.published
    os.waitpid(child, 0)
