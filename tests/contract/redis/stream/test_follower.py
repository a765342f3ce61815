"""The follower: it yields every message once and in order, live and from the logs."""

import asyncio
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import redis

from roboco.errors import TransientError
from roboco.local.valkey import ValkeyServer
from roboco.redis import client as redis_client
from roboco.redis import logs as redis_logs
from roboco.redis.stream import async_follower
from roboco.redis.stream import follower as redis_follower
from roboco.redis.stream import subscriptions as redis_subscriptions
from roboco.redis.stream.async_follower import AsyncFollower
from roboco.redis.stream.follower import RedisFollower
from roboco.redis.stream.position import Record, StreamPosition
from tests.contract.redis.stream.publisher import END, Archive, Publisher, eventually, no_archive, receive, text_of
from tests.contract.redis.task_on_redis import TaskOnRedis
from tests.contract.samples import TASK

pytestmark = pytest.mark.redis

MIN_CONNECTIONS = 50


@pytest.fixture(autouse=True)
def _short_recheck_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_subscriptions, "RECHECK_INTERVAL", 0.1)


@pytest.fixture
def shared(valkey: ValkeyServer, redis_task: TaskOnRedis) -> RedisFollower:
    return RedisFollower(redis_task.client, valkey.url, redis_task.keys, no_archive)


async def connect_often(shared: RedisFollower, received: list[str], seed: int) -> int:
    """Receive some messages in each of many connections, until the last message. Return their number."""
    chance, position, connections = random.Random(seed), StreamPosition(), 0
    while received[-1:] != [END]:
        position = replace(position)
        await receive(AsyncFollower(shared).follow(TASK, position), received, chance.randrange(1, 12))
        connections += 1
    return connections


def test_followers_that_disconnect_receive_every_message_once(shared: RedisFollower, redis_task: TaskOnRedis) -> None:
    async def main() -> None:
        publisher, received = Publisher(redis_task), [list[str](), list[str]()]
        followers = [asyncio.create_task(connect_often(shared, own, seed)) for seed, own in enumerate(received)]
        publisher.create_task()
        while len(publisher.published) < MIN_CONNECTIONS * 8:
            await asyncio.to_thread(publisher.publish_turn)
            await eventually(lambda: len(publisher.published) - min(map(len, received)) < 40, "the followers keep up")
        publisher.publish_end()
        assert min(await asyncio.gather(*followers)) > MIN_CONNECTIONS
        assert received == [publisher.published] * 2

    asyncio.run(main())


def test_killed_connections_are_reopened(shared: RedisFollower, redis_task: TaskOnRedis) -> None:
    async def main() -> None:
        publisher, received = Publisher(redis_task), list[str]()
        following = asyncio.create_task(receive(AsyncFollower(shared).follow(TASK, StreamPosition()), received))
        publisher.create_task()
        for number in range(24):
            await asyncio.to_thread(publisher.publish_turn)
            if number % 6 == 3:
                await eventually(lambda: len(received) > len(publisher.published) // 2, "it receives messages")
                redis_task.client.client_kill_filter(_type="pubsub")
        publisher.publish_end()
        await asyncio.wait_for(following, 60)
        assert received == publisher.published

    asyncio.run(main())


class InterruptedRedis(redis.Redis):
    """A client that calls `meanwhile` before its nth command; `left` counts down to it."""

    left = 0
    meanwhile: Callable[[], object] = staticmethod(lambda: None)

    def execute_command(self, *args: Any, **options: Any) -> Any:
        """Send the command, after `meanwhile` if it is the nth one."""
        self.left -= 1
        if self.left == 0:
            self.meanwhile()
        execute: Any = super().execute_command
        return execute(*args, **options)


@pytest.mark.parametrize("nth", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("new_turns", [0, 8])
def test_a_loss_of_the_logs_during_a_replay_repeats_nothing(
    redis_task: TaskOnRedis, valkey: ValkeyServer, monkeypatch: pytest.MonkeyPatch, nth: int, new_turns: int
) -> None:
    """The logs are lost and created again while a follower reads them. It receives the new logs once."""
    monkeypatch.setattr(redis_logs, "PAGE_SIZE", 10)
    before, after = Publisher(redis_task, 1), Publisher(redis_task, 2)
    before.create_task()
    for _ in range(4):
        before.publish_turn()

    def lose_logs() -> None:
        redis_task.wipe()
        after.create_task()
        for _ in range(new_turns):
            after.publish_turn()

    with InterruptedRedis.from_url(valkey.url, decode_responses=True) as client:
        client.left, client.meanwhile = nth, lose_logs
        follower = RedisFollower(client, valkey.url, redis_task.keys, no_archive)
        position = StreamPosition()
        records = [record for _ in range(3) for record in follower.replay(TASK, position)]
    [generation] = redis_task.generations()
    assert [text_of(record) for record in records if record["generation"] == generation] == after.published
    old = [text_of(record) for record in records if record["generation"] != generation]
    assert old == [word for word in before.published if word in old]
    assert position.generation == generation


def test_events_that_were_trimmed_from_the_log_come_from_the_archive(
    redis_task: TaskOnRedis, valkey: ValkeyServer
) -> None:
    """Followers from every position, while a coordinator archives and trims."""
    archive = Archive(redis_task)
    shared = RedisFollower(redis_task.client, valkey.url, redis_task.keys, archive.read)
    publisher = Publisher(redis_task)
    publisher.create_task()
    positions = [StreamPosition(), StreamPosition(redis_task.snapshot.logs.generation)]
    for turn in range(30):
        publisher.publish_turn()
        now = redis_task.snapshot
        positions.append(StreamPosition(now.logs.generation, now.logs.events, now.logs.chunks))
        if turn % 4 == 3:
            archive.trim(kept=turn % 3)
    publisher.publish_end()
    assert redis_task.snapshot.logs.first_event > 10

    async def main() -> None:
        for position in positions:
            received: list[str] = []
            rest = publisher.published[position.events + position.chunks :]
            await receive(AsyncFollower(shared).follow(TASK, position), received)
            assert received == rest

    asyncio.run(main())


@pytest.mark.parametrize("nth", range(1, 12))
def test_a_log_that_is_trimmed_during_the_read_has_no_gap(
    redis_task: TaskOnRedis, valkey: ValkeyServer, monkeypatch: pytest.MonkeyPatch, nth: int
) -> None:
    monkeypatch.setattr(redis_follower, "PAGE_SIZE", 3)
    publisher, archive = Publisher(redis_task), Archive(redis_task)
    publisher.create_task()
    for _ in range(6):
        publisher.publish_turn()

    def trim() -> None:
        archive.trim(kept=1)
        publisher.publish_turn()

    with InterruptedRedis.from_url(valkey.url, decode_responses=True) as client:
        client.left, client.meanwhile = nth, trim
        follower = RedisFollower(client, valkey.url, redis_task.keys, archive.read)
        position = StreamPosition()
        received = [text_of(record) for _ in range(2) for record in follower.replay(TASK, position)]
    assert received == publisher.published


def test_a_follower_reports_an_unreachable_redis(
    unreachable_task: TaskOnRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_client, "TIMEOUT", 0.05)
    monkeypatch.setattr(redis_subscriptions, "UNREACHABLE_TIMEOUT", 0.5)
    port = unreachable_task.client.get_connection_kwargs()["port"]
    shared = RedisFollower(unreachable_task.client, f"redis://127.0.0.1:{port}/0", unreachable_task.keys, no_archive)
    with pytest.raises(TransientError, match=r"^redis does not answer for 0\.5 s"):
        asyncio.run(asyncio.wait_for(receive(AsyncFollower(shared).follow(TASK, StreamPosition()), []), 60))


def test_a_follower_names_a_workspace_that_does_not_answer(
    redis_task: TaskOnRedis, valkey: ValkeyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Redis works all the time."""

    def failing_archive(task_id: str, generation: str, after: int, before: int) -> Iterator[Record]:
        raise TransientError("the S3 store does not answer: it is away")

    monkeypatch.setattr(async_follower, "UNREACHABLE_TIMEOUT", 0.3)
    publisher = Publisher(redis_task)
    publisher.create_task()
    for _ in range(9):
        publisher.publish_turn()
    Archive(redis_task).trim(kept=2)
    shared = RedisFollower(redis_task.client, valkey.url, redis_task.keys, failing_archive)
    expected = r"^the workspace does not answer for 0\.3 s: the S3 store does not answer: it is away$"
    with pytest.raises(TransientError, match=expected):
        asyncio.run(asyncio.wait_for(receive(AsyncFollower(shared).follow(TASK, StreamPosition()), []), 60))
