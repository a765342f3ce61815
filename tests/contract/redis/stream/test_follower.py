"""The follower: it yields every message once and in order, live and from the logs."""

import random
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any

import pytest
import redis

from roboco.errors import TransientError
from roboco.local.valkey import ValkeyServer
from roboco.redis import client as redis_client
from roboco.redis import logs as redis_logs
from roboco.redis.keys import Keys
from roboco.redis.stream import async_follower as redis_async_follower
from roboco.redis.stream import follower as redis_follower
from roboco.redis.stream import subscriptions as redis_subscriptions
from roboco.redis.stream.follower import RedisFollower
from roboco.redis.stream.log_merger import ReadArchive
from roboco.redis.stream.position import Record, StreamPosition
from roboco.redis.task_store import ReadLargeSteps, no_steps
from tests.contract.redis.stream.blocking_follower import BlockingFollower
from tests.contract.redis.stream.publisher import END, Archive, Publisher, no_archive, text_of
from tests.contract.redis.task_on_redis import TaskOnRedis
from tests.contract.redis.unreachable_redis import wait_for_error
from tests.contract.samples import TASK
from tests.support.stack import until

pytestmark = pytest.mark.redis

MIN_CONNECTIONS = 50


@pytest.fixture(autouse=True)
def _short_recheck_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_subscriptions, "RECHECK_INTERVAL", 0.1)


@pytest.fixture
def make_follower() -> Iterator[Callable[[redis.Redis, str, Keys], BlockingFollower]]:
    """Yield a function that creates followers."""
    loops: list[BlockingFollower] = []

    def create(
        client: redis.Redis, url: str, keys: Keys, archive: ReadArchive = no_archive, steps: ReadLargeSteps = no_steps
    ) -> BlockingFollower:
        loops.append(BlockingFollower(RedisFollower(client, url, keys, archive, steps)))
        return loops[-1]

    yield create
    for loop in loops:
        loop.close()


@pytest.fixture
def follower(
    valkey: ValkeyServer, redis_task: TaskOnRedis, make_follower: Callable[..., BlockingFollower]
) -> BlockingFollower:
    return make_follower(redis_task.client, valkey.url, redis_task.keys)


def receive(records: Iterator[Record | None], received: list[str], limit: int = 1_000_000) -> None:
    """Append the texts of the messages to `received`, up to this number or until the last message."""
    for record in records:
        if record is not None:
            received.append(text_of(record))
            limit -= 1
        if not limit or received[-1:] == [END]:
            return


@contextmanager
def following(follower: BlockingFollower, position: StreamPosition) -> Iterator[Iterator[Record | None]]:
    """Yield the messages after the position. Disconnect the follower when the block ends."""
    records = follower.follow(TASK, position)
    assert isinstance(records, Generator)
    with closing(records):
        yield records


def test_followers_that_disconnect_receive_every_message_once(
    follower: BlockingFollower, redis_task: TaskOnRedis
) -> None:
    publisher = Publisher(redis_task)
    received: list[list[str]] = [[], []]

    def follow(seed: int) -> int:
        chance = random.Random(seed)
        position, connections = StreamPosition(), 0
        while received[seed][-1:] != [END]:
            position = replace(position)
            with following(follower, position) as records:
                receive(records, received[seed], chance.randrange(1, 12))
            connections += 1
        return connections

    with ThreadPoolExecutor(2) as pool:
        followers = [pool.submit(follow, seed) for seed in range(2)]
        publisher.create_task()
        while len(publisher.published) < MIN_CONNECTIONS * 8:
            publisher.publish_turn()
            until(lambda: len(publisher.published) - min(map(len, received)) < 40, 60, "the followers keep up")
        publisher.publish_end()
        connections = [done.result(timeout=60) for done in followers]
    assert received == [publisher.published] * 2
    assert min(connections) > MIN_CONNECTIONS


def test_killed_connections_are_reopened(follower: BlockingFollower, redis_task: TaskOnRedis) -> None:
    publisher = Publisher(redis_task)
    received: list[str] = []
    with ThreadPoolExecutor(1) as pool:
        receiving = pool.submit(receive, follower.follow(TASK, StreamPosition()), received)
        publisher.create_task()
        for number in range(24):
            publisher.publish_turn()
            if number % 6 == 3:
                until(lambda: len(received) > len(publisher.published) // 2, 60, "the follower receives messages")
                redis_task.client.client_kill_filter(_type="pubsub")
        publisher.publish_end()
        receiving.result(timeout=60)
    assert received == publisher.published


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
    redis_task: TaskOnRedis, valkey: ValkeyServer, make_follower: Callable[..., BlockingFollower]
) -> None:
    """Followers from every position, while a coordinator archives and trims."""
    archive = Archive(redis_task)
    follower = make_follower(redis_task.client, valkey.url, redis_task.keys, archive.read)
    publisher = Publisher(redis_task)
    publisher.create_task()
    positions = [StreamPosition(redis_task.snapshot.logs.generation)]
    for turn in range(30):
        publisher.publish_turn()
        now = redis_task.snapshot
        positions.append(StreamPosition(now.logs.generation, now.logs.events, now.logs.chunks))
        if turn % 4 == 3:
            archive.trim(kept=turn % 3)
    publisher.publish_end()
    assert redis_task.snapshot.logs.first_event > 10
    whole: list[str] = []
    with following(follower, StreamPosition()) as records:
        receive(records, whole)
    assert whole == publisher.published
    for position in positions:
        received: list[str] = []
        rest = publisher.published[position.events + position.chunks :]
        with following(follower, position) as records:
            receive(records, received)
        assert received == rest


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


def test_a_follower_that_ends_leaves_no_connection(follower: BlockingFollower, redis_task: TaskOnRedis) -> None:
    client: Any = redis_task.client
    with following(follower, StreamPosition()) as records:
        next(records)
        assert len(client.client_list(_type="pubsub")) == 1
    until(lambda: not client.client_list(_type="pubsub"), 60, "the connection is closed")


def test_a_follower_reports_an_unreachable_redis(
    unreachable_task: TaskOnRedis, monkeypatch: pytest.MonkeyPatch, make_follower: Callable[..., BlockingFollower]
) -> None:
    monkeypatch.setattr(redis_client, "TIMEOUT", 0.05)
    monkeypatch.setattr(redis_subscriptions, "UNREACHABLE_TIMEOUT", 0.5)
    port = unreachable_task.client.get_connection_kwargs()["port"]
    follower = make_follower(unreachable_task.client, f"redis://127.0.0.1:{port}/0", unreachable_task.keys)
    assert wait_for_error(lambda: next(follower.follow(TASK, StreamPosition()))) == "redis does not answer for 0.5 s"


def test_a_follower_names_a_workspace_that_does_not_answer(
    redis_task: TaskOnRedis,
    valkey: ValkeyServer,
    monkeypatch: pytest.MonkeyPatch,
    make_follower: Callable[..., BlockingFollower],
) -> None:
    """Redis works all the time."""

    def failing_archive(task_id: str, generation: str, after: int, before: int) -> Iterator[Record]:
        raise TransientError("the S3 store does not answer: it is away")

    monkeypatch.setattr(redis_async_follower, "UNREACHABLE_TIMEOUT", 0.3)
    publisher = Publisher(redis_task)
    publisher.create_task()
    for _ in range(9):
        publisher.publish_turn()
    Archive(redis_task).trim(kept=2)
    follower = make_follower(redis_task.client, valkey.url, redis_task.keys, failing_archive)
    expected = r"^the workspace does not answer for 0\.3 s: the S3 store does not answer: it is away$"
    with following(follower, StreamPosition()) as records, pytest.raises(TransientError, match=expected):
        receive(records, [])
