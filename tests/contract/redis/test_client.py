"""Connections to Redis: every wait has a limit."""

from collections.abc import Callable

import pytest
import redis

from roboco.errors import UsageError
from roboco.redis import client as redis_client
from roboco.redis.client import connect, connect_subscriber
from tests.contract.redis.task_on_redis import TaskOnRedis
from tests.contract.redis.unreachable_redis import wait_for_error


@pytest.fixture
def url(unreachable_task: TaskOnRedis, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the URL of a Redis that never replies or has stopped; the client waits only 50 ms for a reply."""
    monkeypatch.setattr(redis_client, "TIMEOUT", 0.05)
    return f"redis://127.0.0.1:{unreachable_task.client.get_connection_kwargs()['port']}/0"


def test_a_command_without_a_reply_fails(url: str) -> None:
    with connect(url) as client:
        assert wait_for_error(client.ping)


@pytest.mark.parametrize("opened", [connect, connect_subscriber])
@pytest.mark.parametrize("wrong", ["localhost:6379", "http://localhost", "redis://localhost:port/0"])
def test_a_wrong_address_names_the_setting(opened: Callable[[str], redis.Redis], wrong: str) -> None:
    with pytest.raises(UsageError, match="ROBOCO_REDIS_URL"):
        opened(wrong)
