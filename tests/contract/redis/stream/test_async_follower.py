"""Followers in event loops: what they share, and what becomes of those that are slow, cancelled or cut off."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from roboco.adapters.local.process import free_port
from roboco.adapters.local.valkey import ValkeyServer, start_valkey
from roboco.adapters.redis.client import connect
from roboco.adapters.redis.keys import Keys
from roboco.adapters.redis.stream import async_follower
from roboco.adapters.redis.stream import subscriptions as redis_subscriptions
from roboco.adapters.redis.stream.async_follower import AsyncFollower
from roboco.adapters.redis.stream.follower import RedisFollower
from roboco.adapters.redis.stream.position import Record, StreamPosition
from roboco.adapters.redis.stream.subscriber import MAX_QUEUED, ControlSignal, Subscriber
from roboco.errors import TransientError
from tests.contract.redis.stream.test_follower import END, Speaker, what
from tests.contract.redis.task_on_redis import TaskOnRedis
from tests.contract.samples import TASK

pytestmark = pytest.mark.redis


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_subscriptions, "RECHECK_INTERVAL", 0.1)


@pytest.fixture
def shared(valkey: ValkeyServer, redis_task: TaskOnRedis) -> RedisFollower:
    """What all followers of a process share."""
    return RedisFollower(redis_task.client, valkey.url, redis_task.keys)


async def eventually(condition: Callable[[], object], what: str) -> None:
    """Wait until the condition holds."""
    try:
        async with asyncio.timeout(10):
            while not condition():
                await asyncio.sleep(0.01)
    except TimeoutError as error:
        raise AssertionError(f"after 10 s still not: {what}") from error


async def hear(records: AsyncGenerator[Record | None, None], heard: list[str]) -> None:
    """Note what the messages say, until the end."""
    async with aclosing(records):
        async for record in records:
            if record is not None:
                heard.append(what(record))
            if heard[-1:] == [END]:
                return


def subscriptions(task: TaskOnRedis) -> int:
    """How many connections listen to the task's channel of texts."""
    client: Any = task.client
    return int(client.pubsub_numsub(task.keys.content(TASK))[0][1])


async def speak(speaker: Speaker, turns: int = 12) -> None:
    """Say something in so many turns, and the end."""
    for _ in range(turns):
        await asyncio.to_thread(speaker.turn)
    speaker.end()


def test_all_followers_of_a_loop_share_one_connection(shared: RedisFollower, redis_task: TaskOnRedis) -> None:
    async def main() -> None:
        speaker = Speaker(redis_task)
        speaker.begin()
        heard: list[list[str]] = [[] for _ in range(50)]
        async with asyncio.TaskGroup() as group:
            for own in heard:
                group.create_task(hear(AsyncFollower(shared).follow(TASK, StreamPosition()), own))
            await eventually(lambda: subscriptions(redis_task), "somebody listens")
            await speak(speaker)
            assert subscriptions(redis_task) == 1
        assert heard == [speaker.spoken] * 50
        await eventually(lambda: not subscriptions(redis_task), "nobody listens")

    asyncio.run(main())


def test_a_slow_follower_continues_from_the_logs(shared: RedisFollower, redis_task: TaskOnRedis) -> None:
    """It takes one message and stands still while many more come than are held."""

    async def main() -> None:
        speaker = Speaker(redis_task)
        speaker.begin()
        async with aclosing(AsyncFollower(shared).follow(TASK, StreamPosition())) as records:
            heard = [what(record) for record in [await anext(records)] if record is not None]
            (topic,) = shared.hubs.current()._subscriptions.values()
            (listener,) = topic.subscribers
            while len(speaker.spoken) < 2 * MAX_QUEUED:
                await asyncio.to_thread(speaker.turn)
                assert len(listener._queue) <= MAX_QUEUED
            await eventually(lambda: listener._control is ControlSignal.CATCH_UP, "it is told to read on")
            assert not listener._queue
            speaker.end()
            await hear(records, heard)
        assert heard == speaker.spoken

    asyncio.run(main())


@pytest.mark.parametrize("moment", [0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377])
def test_a_follower_that_is_cancelled_at_any_moment_leaves_nothing(
    shared: RedisFollower, redis_task: TaskOnRedis, moment: int
) -> None:
    """It is cancelled after so many rounds of the loop, while others follow the same task and come anew."""

    async def main() -> None:
        speaker = Speaker(redis_task)
        speaker.begin()
        stays: list[str] = []
        cancelled = asyncio.create_task(hear(AsyncFollower(shared).follow(TASK, StreamPosition()), []))
        for _ in range(moment):
            await asyncio.sleep(0)
        staying = asyncio.create_task(hear(AsyncFollower(shared).follow(TASK, StreamPosition()), stays))
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        await speak(speaker, 4)
        await asyncio.wait_for(staying, 10)
        assert stays == speaker.spoken
        assert not shared.hubs.current()._subscriptions
        await eventually(lambda: len(asyncio.all_tasks()) == 1, "nothing else runs in the loop")
        await eventually(lambda: not subscriptions(redis_task), "nobody listens")

    asyncio.run(main())


def test_a_follower_that_starts_as_the_last_one_ends_receives_all_messages(
    shared: RedisFollower, redis_task: TaskOnRedis
) -> None:
    """Channels are given up and subscribed to again in the same moments."""

    async def main() -> None:
        speaker = Speaker(redis_task)
        speaker.begin()
        position = StreamPosition()
        heard: list[str] = []
        speaking = asyncio.create_task(speak(speaker, 12))
        while heard[-1:] != [END]:
            async with aclosing(AsyncFollower(shared).follow(TASK, position)) as records:
                async for record in records:
                    if record is not None:
                        heard.append(what(record))
                    if record is not None or heard[-1:] == [END]:
                        break
        await speaking
        assert heard == speaker.spoken

    asyncio.run(main())


def test_two_event_loops_follow_side_by_side(shared: RedisFollower, redis_task: TaskOnRedis) -> None:
    async def follow(heard: list[str]) -> None:
        await hear(AsyncFollower(shared).follow(TASK, StreamPosition()), heard)

    async def main() -> None:
        speaker = Speaker(redis_task)
        speaker.begin()
        heard: list[list[str]] = [[], [], []]
        others = [asyncio.to_thread(asyncio.run, follow(own)) for own in heard[:2]]
        following = asyncio.gather(*others, follow(heard[2]))
        await eventually(lambda: subscriptions(redis_task) == 3, "each loop listens")
        await speak(speaker)
        await asyncio.wait_for(following, 10)
        assert heard == [speaker.spoken] * 3

    asyncio.run(main())
    asyncio.run(follow([]))  # a loop after them; the task has ended
    assert len(shared.hubs._hubs) == 1, "loops that are closed are forgotten"


def test_a_loop_that_closes_during_a_stream_does_not_disturb_the_next_one(
    shared: RedisFollower, redis_task: TaskOnRedis
) -> None:
    Speaker(redis_task).begin()

    async def begin() -> None:
        async for _ in AsyncFollower(shared).follow(TASK, StreamPosition()):
            break

    asyncio.run(begin())
    assert subscriptions(redis_task) in (0, 1)
    test_a_follower_that_starts_as_the_last_one_ends_receives_all_messages(shared, redis_task)


def test_followers_ignore_malformed_messages_on_a_channel(shared: RedisFollower, redis_task: TaskOnRedis) -> None:
    """Anybody who reaches Redis can publish; who follows other tasks over the same connection notices nothing."""

    async def main() -> None:
        speaker = Speaker(redis_task)
        speaker.begin()
        heard: list[str] = []
        following = asyncio.create_task(hear(AsyncFollower(shared).follow(TASK, StreamPosition()), heard))
        await eventually(lambda: heard == speaker.spoken, "the follower listens")
        for text in ("", "{", "\x00" * 100, b"\xff\xfe", "1", "{}", "[" * 100_000):
            redis_task.client.publish(redis_task.keys.events(TASK), text)
        await speak(speaker)
        await asyncio.wait_for(following, 10)
        assert heard == speaker.spoken

    asyncio.run(main())


class Failing(redis.Redis):
    """A client whose nth command fails once."""

    left = 0

    def execute_command(self, *args: Any, **options: Any) -> Any:
        """Send the command."""
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
    speaker = Speaker(redis_task)
    speaker.begin()
    for _ in range(4):
        speaker.turn()
    speaker.end()
    heard: list[str] = []
    with Failing.from_url(valkey.url, decode_responses=True) as client:
        client.left = nth
        shared = RedisFollower(client, valkey.url, redis_task.keys)
        asyncio.run(asyncio.wait_for(hear(AsyncFollower(shared).follow(TASK, StreamPosition()), heard), 20))
        assert client.left < 0
    assert heard == speaker.spoken


def test_logs_that_stay_unreadable_raise_a_transient_error(
    redis_task: TaskOnRedis, valkey: ValkeyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The channels can be listened to all the while."""
    monkeypatch.setattr(async_follower, "UNREACHABLE_TIMEOUT", 0.3)
    monkeypatch.setattr(async_follower, "RETRY_DELAY", 0.01)
    with redis.Redis(port=free_port(), retry=Retry(NoBackoff(), 0)) as client:
        shared = RedisFollower(client, valkey.url, redis_task.keys)
        with pytest.raises(TransientError, match=r"redis does not answer for 0\.3 s"):
            asyncio.run(asyncio.wait_for(hear(AsyncFollower(shared).follow(TASK, StreamPosition()), []), 20))


def test_a_follower_waits_for_a_redis_that_restarts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = start_valkey(tmp_path)
    client = connect(server.url)
    task = TaskOnRedis(client, Keys("away"))
    shared = RedisFollower(client, server.url, task.keys)

    async def main() -> None:
        nonlocal server
        speaker = Speaker(task)
        speaker.begin()
        heard: list[str] = []
        following = asyncio.create_task(hear(AsyncFollower(shared).follow(TASK, StreamPosition()), heard))
        await asyncio.to_thread(speaker.turn)
        await eventually(lambda: heard == speaker.spoken, "the follower listens")
        os.kill(server.pid, signal.SIGTERM)
        await asyncio.to_thread(server.process.wait)
        (topic,) = shared.hubs.current()._subscriptions.values()
        (listener,) = topic.subscribers
        await eventually(lambda: listener.disconnected_since, "the loss is noticed")
        server = start_valkey(tmp_path, server.port)
        await speak(speaker)
        await asyncio.wait_for(following, 20)
        assert heard == speaker.spoken

    try:
        asyncio.run(main())
    finally:
        client.close()
        server.stop()


def test_a_forked_process_opens_its_own_connection(shared: RedisFollower, redis_task: TaskOnRedis) -> None:
    speaker = Speaker(redis_task)
    speaker.begin()
    speaker.turn()
    speaker.end()

    def heard() -> list[str]:
        words: list[str] = []
        asyncio.run(asyncio.wait_for(hear(AsyncFollower(shared).follow(TASK, StreamPosition()), words), 20))
        return words

    assert heard() == speaker.spoken
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.write(writing, json.dumps(heard()).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as status_event:
        assert json.load(status_event) == speaker.spoken
    os.waitpid(child, 0)


def test_a_subscriber_queues_a_limited_number_of_messages() -> None:
    async def main() -> None:
        listener = Subscriber(StreamPosition())
        for number in range(MAX_QUEUED):
            listener.put({"seq": number})
        assert [await listener.receive() for _ in range(MAX_QUEUED)] == [
            {"seq": number} for number in range(MAX_QUEUED)
        ]
        for number in range(2 * MAX_QUEUED):
            listener.put({"seq": number})
        assert await listener.receive() is ControlSignal.CATCH_UP
        listener.put({"seq": 7})
        assert await listener.receive() == {"seq": 7}

    asyncio.run(main())
