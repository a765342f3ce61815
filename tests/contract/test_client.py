"""Connections to Redis: no wait is without a limit."""

from collections.abc import Callable

import pytest
import redis

from roboco.adapters.redis import client as redis_client
from roboco.adapters.redis.client import connect, connect_subscriber
from roboco.errors import UsageError
from tests.contract.giving_up import gives_up
from tests.contract.task_on_redis import TaskOnRedis


@pytest.fixture
def url(unreachable_task: TaskOnRedis, monkeypatch: pytest.MonkeyPatch) -> str:
    """Of a Redis that is silent, or gone; an answer is waited for only 50 ms."""
    monkeypatch.setattr(redis_client, "TIMEOUT", 0.05)
    return f"redis://127.0.0.1:{unreachable_task.client.get_connection_kwargs()['port']}/0"


def test_a_command_without_an_answer_is_given_up(url: str) -> None:
    with connect(url) as client:
        assert gives_up(client.ping)


def test_a_subscription_without_an_answer_is_given_up(url: str) -> None:
    def subscribe() -> None:
        with connect_subscriber(url) as client, client.pubsub() as pubsub:
            pubsub.subscribe("channel")

    assert gives_up(subscribe)


@pytest.mark.parametrize("opened", [connect, connect_subscriber])
@pytest.mark.parametrize("wrong", ["localhost:6379", "http://localhost", "redis://localhost:port/0"])
def test_a_wrong_address_names_the_setting(opened: Callable[[str], redis.Redis], wrong: str) -> None:
    with pytest.raises(UsageError, match="ROBOCO_REDIS_URL"):
        opened(wrong)
