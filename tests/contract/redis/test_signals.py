"""Signals on Redis: heard by who listens, and by nobody else."""

import queue
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from contextvars import ContextVar
from typing import Any

import pytest

from roboco.adapters.local.valkey import ValkeyServer
from roboco.adapters.redis.signals import RedisSignals
from tests.contract.redis.task_on_redis import TaskOnRedis
from tests.contract.samples import TASK
from tests.support.stack import until


@pytest.fixture
def signals(redis_task: TaskOnRedis, valkey: ValkeyServer) -> Iterator[RedisSignals]:
    """What listens for the task."""
    listening = RedisSignals(valkey.url, redis_task.keys)
    yield listening
    listening.close()


def subscribed(task: TaskOnRedis) -> None:
    """Wait until somebody listens."""
    until(lambda: task.client.pubsub_numsub(task.keys.signals)[0][1], 10, "somebody listens")


def test_a_listener_receives_the_signal_of_its_epoch(redis_task: TaskOnRedis, signals: RedisSignals) -> None:
    redis_task.create()
    epoch = redis_task.record_decision()
    heard, others = threading.Event(), threading.Event()
    with (
        signals.listen(TASK, epoch, heard.set),
        signals.listen(TASK, epoch + 1, others.set),
        signals.listen("another", epoch, others.set),
    ):
        subscribed(redis_task)
        redis_task.inbox.add(TASK, ["message"])
        redis_task.inbox.add(TASK, ["stop"], interrupt=True)
        assert heard.wait(10)
    assert not others.is_set()


def test_a_callback_runs_in_the_context_of_its_listener(redis_task: TaskOnRedis, signals: RedisSignals) -> None:
    """So that log lines name its work, also those of a callback that fails."""
    redis_task.create()
    epoch = redis_task.record_decision()
    heard: queue.SimpleQueue[str] = queue.SimpleQueue()
    whose = ContextVar("whose", default="nobody's")
    listened = ("one", "other")
    with ExitStack() as listening:
        for name in listened:
            whose.set(name)
            listening.enter_context(signals.listen(TASK, epoch, lambda: heard.put(whose.get())))
        whose.set("changed later")
        subscribed(redis_task)
        redis_task.inbox.add(TASK, ["stop"], interrupt=True)
        assert sorted(heard.get(timeout=10) for _ in listened) == ["one", "other"]


def test_a_closed_listener_receives_nothing(redis_task: TaskOnRedis, signals: RedisSignals) -> None:
    redis_task.create()
    epoch = redis_task.record_decision()
    heard, gone = threading.Event(), threading.Event()
    with signals.listen(TASK, epoch, gone.set):
        subscribed(redis_task)
    with signals.listen(TASK, epoch, _fails), signals.listen(TASK, epoch, heard.set):
        redis_task.inbox.add(TASK, ["stop"], interrupt=True)
        assert heard.wait(10), "one that fails keeps nobody else from hearing"
    assert not gone.is_set()


def _fails() -> None:
    raise ZeroDivisionError


def test_a_lost_connection_is_reopened(redis_task: TaskOnRedis, signals: RedisSignals) -> None:
    redis_task.create()
    epoch = redis_task.record_decision()
    heard = threading.Event()
    with signals.listen(TASK, epoch, heard.set):
        subscribed(redis_task)
        clients: Any = redis_task.client
        before = {client["id"] for client in clients.client_list(_type="pubsub")}
        clients.client_kill_filter(_type="pubsub")
        until(lambda: {client["id"] for client in clients.client_list(_type="pubsub")} - before, 10, "it is made anew")
        subscribed(redis_task)
        redis_task.inbox.add(TASK, ["stop"], interrupt=True)
        assert heard.wait(10)
