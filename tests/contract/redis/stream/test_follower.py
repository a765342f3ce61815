"""The follower: every message once and in the order of emission, live and from the logs."""

import json
import random
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any

import pytest
import redis

from roboco.adapters.local.valkey import ValkeyServer
from roboco.adapters.redis import client as redis_client
from roboco.adapters.redis import logs as redis_logs
from roboco.adapters.redis import task_store as redis_task_store
from roboco.adapters.redis.keys import Keys
from roboco.adapters.redis.stream import follower as redis_follower
from roboco.adapters.redis.stream import subscriptions as redis_subscriptions
from roboco.adapters.redis.stream.follower import RedisFollower
from roboco.adapters.redis.stream.position import Record, StreamPosition
from roboco.domain.stream.event import AnyEvent, ErrorOccurred
from roboco.ports.task_store import Phase
from tests.contract.redis.chunk_emission import emit_chunk
from tests.contract.redis.stream.blocking_follower import BlockingFollower
from tests.contract.redis.task_on_redis import TaskOnRedis
from tests.contract.redis.unreachable_redis import wait_for_error
from tests.contract.samples import NOON, TASK, USAGE, status_event, text_chunk
from tests.support.stack import until

pytestmark = pytest.mark.redis

END = "the end"
DISCONNECTS = 50


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (redis_follower, redis_subscriptions):
        monkeypatch.setattr(module, "RECHECK_INTERVAL", 0.1)


Follower = RedisFollower | BlockingFollower


@pytest.fixture(params=["thread", "event loop"])
def make(request: pytest.FixtureRequest) -> Iterator[Callable[[redis.Redis, str, Keys], Follower]]:
    """Makes followers, in the thread that asks them or in an event loop."""
    loops: list[BlockingFollower] = []

    def make(client: redis.Redis, url: str, keys: Keys) -> Follower:
        follower = RedisFollower(client, url, keys)
        if request.param == "thread":
            return follower
        loops.append(BlockingFollower(follower))
        return loops[-1]

    yield make
    for loop in loops:
        loop.close()


@pytest.fixture
def follower(valkey: ValkeyServer, redis_task: TaskOnRedis, make: Callable[..., Follower]) -> Follower:
    return make(redis_task.client, valkey.url, redis_task.keys)


class Speaker:
    """Tells events and says chunks through the board and the turns; `spoken` is what, and in which order."""

    def __init__(self, task: TaskOnRedis, seed: int = 1) -> None:
        self._task = task
        self._random = random.Random(seed)
        self.spoken: list[str] = []

    def begin(self) -> None:
        """Set the task up."""
        self._task.create(1, self._event())

    def turn(self) -> None:
        """Make a turn, with some events and chunks; some turns are lost and begun again."""
        self._task.record_decision(Phase.TURN, *self._events())
        self._chunks()
        if self._random.random() < 0.4:
            assert self._task.turns.restart(TASK, self._task.snapshot.epoch, self._event(), "me")
            self._chunks()
        assert self._task.commit(*self._events())

    def end(self) -> None:
        """Tell that this was all."""
        self.spoken.append(END)
        self._task.record_decision(Phase.END, status_event(END))

    def _event(self) -> AnyEvent:
        self.spoken.append(f"event {len(self.spoken)}")
        return status_event(self.spoken[-1])

    def _events(self) -> list[AnyEvent]:
        return [self._event() for _ in range(self._random.randrange(3))]

    def _chunks(self) -> None:
        claim = self._task.claim("me")
        for number in range(1, 1 + self._random.randrange(12)):
            self.spoken.append(f"chunk {len(self.spoken)}")
            assert emit_chunk(self._task.turns, claim, number, text_chunk(self.spoken[-1]), USAGE)


def what(record: Record) -> str:
    """What the message says."""
    return str(record.get("text") or record.get("reason") or record["message"])


def hear(records: Iterator[Record | None], heard: list[str], most: int = 1_000_000) -> None:
    """Note what so many messages say, or all until the end."""
    for record in records:
        if record is not None:
            heard.append(what(record))
            most -= 1
        if not most or heard[-1:] == [END]:
            return


@contextmanager
def following(follower: Follower, position: StreamPosition) -> Iterator[Iterator[Record | None]]:
    """The messages after the position, until the block ends: then the follower disconnects."""
    records = follower.follow(TASK, position)
    assert isinstance(records, Generator)
    with closing(records):
        yield records


def test_followers_that_disconnect_receive_every_message_once(follower: Follower, redis_task: TaskOnRedis) -> None:
    speaker = Speaker(redis_task)
    heard: list[list[str]] = [[], []]

    def follow(seed: int) -> int:
        chance = random.Random(seed)
        position, connections = StreamPosition(), 0
        while heard[seed][-1:] != [END]:
            position = replace(position)
            with following(follower, position) as records:
                hear(records, heard[seed], chance.randrange(1, 12))
            connections += 1
        return connections

    with ThreadPoolExecutor(2) as pool:
        followers = [pool.submit(follow, seed) for seed in range(2)]
        speaker.begin()
        while len(speaker.spoken) < DISCONNECTS * 8:
            speaker.turn()
            until(lambda: len(speaker.spoken) - min(map(len, heard)) < 40, 10, "the followers keep up")
        speaker.end()
        connections = [done.result(timeout=10) for done in followers]
    assert heard == [speaker.spoken] * 2
    assert min(connections) > DISCONNECTS


def test_a_replay_continues_from_any_position(
    follower: Follower, redis_task: TaskOnRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_logs, "PAGE_SIZE", 7)
    speaker = Speaker(redis_task)
    speaker.begin()
    for _ in range(12):
        speaker.turn()
    positions, position = [], StreamPosition()
    for record in follower.replay(TASK, position):
        positions.append(replace(position))
        assert what(record) == speaker.spoken[len(positions) - 1]
    assert len(positions) == len(speaker.spoken)
    for number in range(0, len(positions), 5):
        left = [what(record) for record in follower.replay(TASK, positions[number])]
        assert left == speaker.spoken[number + 1 :]


def test_a_replay_keeps_the_order_while_messages_are_published(
    follower: Follower, redis_task: TaskOnRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_logs, "PAGE_SIZE", 3)
    speaker = Speaker(redis_task)
    speaker.begin()

    def speak() -> None:
        for _ in range(40):
            speaker.turn()
        speaker.end()

    with ThreadPoolExecutor(1) as pool:
        speaking = pool.submit(speak)
        heard: list[str] = []
        position = StreamPosition()
        while heard[-1:] != [END]:
            hear(iter(follower.replay(TASK, position)), heard)
        speaking.result()
    assert heard == speaker.spoken


def test_a_follower_may_start_before_its_task(follower: Follower, redis_task: TaskOnRedis) -> None:
    speaker = Speaker(redis_task)
    with following(follower, StreamPosition()) as records:
        assert next(records) is None
        assert next(records) is None
        speaker.begin()
        speaker.turn()
        speaker.end()
        heard: list[str] = []
        hear(records, heard)
        assert heard == speaker.spoken
        assert next(records) is None


def test_killed_connections_are_reopened(follower: Follower, redis_task: TaskOnRedis) -> None:
    speaker = Speaker(redis_task)
    heard: list[str] = []
    with ThreadPoolExecutor(1) as pool:
        hearing = pool.submit(hear, follower.follow(TASK, StreamPosition()), heard)
        speaker.begin()
        for number in range(24):
            speaker.turn()
            if number % 6 == 3:
                until(lambda: len(heard) > len(speaker.spoken) // 2, 5, "the follower hears")
                redis_task.client.client_kill_filter(_type="pubsub")
        speaker.end()
        hearing.result(timeout=10)
    assert heard == speaker.spoken


class Unheard(redis.Redis):
    """A client whose scripts publish nothing, as if every message got lost on its way."""

    def register_script(self, script: Any) -> Any:
        """The script without its publications."""
        return super().register_script(script.replace("redis.call('PUBLISH', log, message)", ""))


def test_changes_yields_every_event_and_reconnects(follower: Follower, redis_task: TaskOnRedis) -> None:
    channel, again = redis_task.keys.events(TASK), {"type": "again"}

    def said_once_more() -> Record | None:  # what comes while it connects anew is told as None
        redis_task.client.publish(channel, json.dumps(again))
        return next(stirs)

    with closing(follower.changes(TASK)) as stirs:
        assert next(stirs) is None
        speaker = Speaker(redis_task)
        speaker.begin()
        assert what(next(one for one in stirs if one is not None)) == speaker.spoken[0]
        for nonsense in ("this is no message", b"\xff", '{"type": []}'):
            redis_task.client.publish(channel, nonsense)
            assert next(stirs) in (None, {"type": []})
        redis_task.client.client_kill_filter(_type="pubsub")
        until(lambda: said_once_more() == again, 5, "it listens again")


def test_unpublished_messages_are_read_from_the_log(
    follower: Follower, redis_task: TaskOnRedis, valkey: ValkeyServer
) -> None:
    with Unheard.from_url(valkey.url, decode_responses=True) as client:
        speaker = Speaker(TaskOnRedis(client, redis_task.keys))
        with following(follower, StreamPosition()) as records:
            assert next(records) is None
            speaker.begin()
            speaker.turn()
            speaker.end()
            heard: list[str] = []
            hear(records, heard)
    assert heard == speaker.spoken


def test_a_new_generation_is_received_from_its_start(follower: Follower, redis_task: TaskOnRedis) -> None:
    before, after = Speaker(redis_task, 1), Speaker(redis_task, 2)
    heard: list[str] = []
    left = StreamPosition()
    before.begin()
    for _ in range(5):
        before.turn()
    with ThreadPoolExecutor(1) as pool, following(follower, left) as leaving:
        hearing = pool.submit(hear, follower.follow(TASK, StreamPosition()), heard)
        hear(leaving, [], 10)
        until(lambda: heard == before.spoken, 5, "the follower has heard everything")
        redis_task.wipe()
        after.begin()
        for _ in range(5):
            after.turn()
        after.end()
        hearing.result(timeout=10)
    assert heard == before.spoken + after.spoken
    again: list[str] = []
    with following(follower, replace(left)) as records:
        hear(records, again)
    assert again == after.spoken


def test_logs_are_received_from_their_start_after_a_reset(follower: Follower, redis_task: TaskOnRedis) -> None:
    speaker = Speaker(redis_task)
    heard: list[str] = []
    speaker.begin()
    with ThreadPoolExecutor(1) as pool:
        hearing = pool.submit(hear, follower.follow(TASK, StreamPosition()), heard)
        for number in range(4):
            speaker.turn()
            until(lambda: heard == speaker.spoken, 5, "the follower has heard everything")
            speaker.spoken.append(f"again {number}")
            redis_task.store.reset_logs(TASK, redis_task.snapshot.epoch, [status_event(speaker.spoken[-1])])
        speaker.end()
        hearing.result(timeout=10)
    assert heard == speaker.spoken


class Overtaken(redis.Redis):
    """A client that is overtaken: before its nth command `meanwhile` runs."""

    left = 0
    meanwhile: Callable[[], object] = staticmethod(lambda: None)

    def execute_command(self, *args: Any, **options: Any) -> Any:
        """Send the command."""
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
    """The logs are lost and begun anew while a follower reads them; the new ones are heard once, from the start."""
    monkeypatch.setattr(redis_logs, "PAGE_SIZE", 10)
    before, after = Speaker(redis_task, 1), Speaker(redis_task, 2)
    before.begin()
    for _ in range(4):
        before.turn()

    def lose() -> None:
        redis_task.wipe()
        after.begin()
        for _ in range(new_turns):
            after.turn()

    with Overtaken.from_url(valkey.url, decode_responses=True) as client:
        client.left, client.meanwhile = nth, lose
        follower = RedisFollower(client, valkey.url, redis_task.keys)
        position = StreamPosition()
        records = [record for _ in range(3) for record in follower.replay(TASK, position)]
    [generation] = redis_task.generations()
    assert [what(record) for record in records if record["generation"] == generation] == after.spoken
    old = [what(record) for record in records if record["generation"] != generation]
    assert old == [word for word in before.spoken if word in old]
    assert position.generation == generation


def test_text_that_was_trimmed_from_the_log_is_skipped(
    follower: Follower, redis_task: TaskOnRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_task_store, "MAX_LOGGED_CHUNKS", 20)
    speaker = Speaker(redis_task)
    speaker.begin()
    for _ in range(40):
        speaker.turn()
    texts = {text for _, _, text in redis_task.chunk_log()}
    there = [word for word in speaker.spoken if word.startswith("event") or word in texts]
    assert len(there) < len(speaker.spoken)
    heard: list[str] = []
    position = StreamPosition()
    with following(follower, position) as records:
        hear(records, heard, len(there))
        assert heard == there
        assert len(redis_task.event_log()) == position.events
        speaker.turn()
        speaker.end()
        hear(records, heard)
    assert heard == there + speaker.spoken[speaker.spoken.index(there[-1]) + 1 :]


def test_an_unlogged_event_does_not_move_the_position(follower: Follower, redis_task: TaskOnRedis) -> None:
    position = StreamPosition()
    with following(follower, position) as records:
        assert next(records) is None
        redis_task.logs.publish_unlogged(TASK, ErrorOccurred(task_id=TASK, timestamp=NOON, code="usage", message="no"))
        record = next(one for one in records if one is not None)
    assert what(record) == "no"
    assert position == StreamPosition()


def test_a_follower_that_ends_leaves_no_connection(follower: Follower, redis_task: TaskOnRedis) -> None:
    client: Any = redis_task.client
    with following(follower, StreamPosition()) as records:
        next(records)
        assert len(client.client_list(_type="pubsub")) == 1
    until(lambda: not client.client_list(_type="pubsub"), 5, "the connection is closed")


def test_a_follower_reports_an_unreachable_redis(
    unreachable_task: TaskOnRedis, monkeypatch: pytest.MonkeyPatch, make: Callable[..., Follower]
) -> None:
    monkeypatch.setattr(redis_client, "TIMEOUT", 0.05)
    for module in (redis_follower, redis_subscriptions):
        monkeypatch.setattr(module, "UNREACHABLE_TIMEOUT", 0.5)
    port = unreachable_task.client.get_connection_kwargs()["port"]
    follower = make(unreachable_task.client, f"redis://127.0.0.1:{port}/0", unreachable_task.keys)
    assert wait_for_error(lambda: next(follower.follow(TASK, StreamPosition()))) == "redis does not answer for 0.5 s"
