"""A hostile producer against real workers of all pools: none ends, and each refused message is a dead letter."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis

from roboco import parse_team
from roboco.broker.names import QUEUES
from roboco.broker.queues import redis_lists
from tests.faults.hostile.producer import BROADCASTS, MALFORMED, mutations
from tests.support.servers.model_server import Reply
from tests.support.stack import Stack, until

pytestmark = pytest.mark.workers

ECHO = parse_team({"name": "echo", "agents": [{"name": "echo", "prompt": "echo"}]})
KEY = "a key of the shop with 32 characters and more"


@pytest.fixture(params=[pytest.param((), marks=pytest.mark.nightly), (KEY,)], ids=["unsigned", "signed"])
def stack(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stack]:
    with Stack(tmp_path, signing_keys=request.param) as running:
        running.model.script(lambda asked: Reply(text="hello"))
        yield running


def wait_until_idle(stack: Stack, redis: Redis) -> None:
    """Wait until the workers have consumed all messages and hold none. Assert that they complete a task."""
    lists = [one for queue in QUEUES for one in redis_lists(queue)]
    until(lambda: not redis.exists(*lists), 60, "the queues are empty")
    assert stack.orchestrator.run(ECHO, "Go.").result(60).status == "completed"
    until(lambda: not redis.exists("roboco.unacked", "roboco.unacked_index"), 60, "no message is held")


def count_letters_by_queue(stack: Stack) -> dict[str, int]:
    """Return the number of dead letters of each queue."""
    queues = [letter.queue for letter in stack.orchestrator.operator.dead_letters()]
    return {queue: queues.count(queue) for queue in QUEUES}


def test_a_hostile_producer_ends_no_worker(stack: Stack) -> None:
    pids = {pool: worker.pid for pool, worker in stack.workers.items()}
    with Redis.from_url(stack.valkey.url) as redis:
        for queue in QUEUES:
            for data in MALFORMED.values():
                redis.lpush(queue, data)
        wait_until_idle(stack, redis)
        expected = dict.fromkeys(QUEUES, len(MALFORMED))
        until(lambda: count_letters_by_queue(stack) == expected, 60, "all of them are dead letters")

        for data in BROADCASTS.values():
            redis.publish("/0.celery.pidbox", data)
        for number, queue in enumerate(QUEUES):
            for data in mutations(number, 100):
                redis.lpush(queue, data)
        wait_until_idle(stack, redis)
    assert all(worker.alive() for worker in stack.workers.values())
    assert {pool: worker.pid for pool, worker in stack.workers.items()} == pids
    asked = stack.orchestrator._producer.control.ping(timeout=60, limit=3) or []
    assert len(asked) == 3
    for pool in pids:
        assert not any(text in stack.log(pool) for text in ("Unrecoverable error", "Connection to broker lost")), pool


def test_a_message_is_kept_while_its_dead_letter_cannot_be_stored(stack: Stack) -> None:
    """The key of dead letters has another type for a while, so that each write fails."""
    with Redis.from_url(stack.valkey.url) as redis:
        redis.set("roboco:{dead}:order", "x")
        redis.lpush(QUEUES[0], b"unreadable")
        until(lambda: redis.hlen("roboco.unacked"), 60, "a worker holds the message")
        redis.delete("roboco:{dead}:order", "roboco:{dead}:letters")
        until(lambda: stack.orchestrator.operator.dead_letters(), 90, "the message is a dead letter")
        [letter] = stack.orchestrator.operator.dead_letters()
        assert (letter.body, letter.size, letter.queue) == ("unreadable", 10, QUEUES[0])
        assert "is no JSON" in letter.reason
        until(lambda: not redis.exists("roboco.unacked"), 60, "no message is held")
    assert all(worker.alive() for worker in stack.workers.values())
