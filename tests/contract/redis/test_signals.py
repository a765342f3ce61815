"""Signals on Redis: each one reaches the listeners of its task and epoch only."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from roboco.local.valkey import ValkeyServer
from roboco.redis.signals import RedisSignals
from tests.contract.redis.task_on_redis import TaskOnRedis
from tests.contract.samples import TASK
from tests.support.stack import until


@pytest.fixture
def signals(redis_task: TaskOnRedis, valkey: ValkeyServer) -> Iterator[RedisSignals]:
    """Yield the listener of this process."""
    signals = RedisSignals(valkey.url, redis_task.keys)
    yield signals
    signals.close()


def wait_for_subscription(task: TaskOnRedis) -> None:
    """Wait until a connection subscribes to the signals."""
    until(lambda: task.client.pubsub_numsub(task.keys.signals)[0][1], 60, "a connection subscribes")


def test_a_listener_receives_the_signal_of_its_epoch(redis_task: TaskOnRedis, signals: RedisSignals) -> None:
    redis_task.create()
    epoch = redis_task.record_decision()
    received, others = threading.Event(), threading.Event()
    with (
        signals.listen(TASK, epoch, received.set),
        signals.listen(TASK, epoch + 1, others.set),
        signals.listen("another", epoch, others.set),
    ):
        wait_for_subscription(redis_task)
        redis_task.store.add_items(TASK, ["message"])
        redis_task.store.add_items(TASK, ["stop"], interrupt=True)
        assert received.wait(60)
    assert not others.is_set()


def test_a_lost_connection_is_reopened(redis_task: TaskOnRedis, signals: RedisSignals) -> None:
    redis_task.create()
    epoch = redis_task.record_decision()
    received = threading.Event()
    with signals.listen(TASK, epoch, received.set):
        wait_for_subscription(redis_task)
        clients: Any = redis_task.client
        before = {client["id"] for client in clients.client_list(_type="pubsub")}
        clients.client_kill_filter(_type="pubsub")
        until(
            lambda: {client["id"] for client in clients.client_list(_type="pubsub")} - before,
            10,
            "the connection is reopened",
        )
        wait_for_subscription(redis_task)
        redis_task.store.add_items(TASK, ["stop"], interrupt=True)
        assert received.wait(60)
