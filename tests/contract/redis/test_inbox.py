"""The inbox: the items that wait for a task."""

from collections.abc import Callable

import pytest

from roboco.errors import TransientError
from roboco.ports.task_store import Phase
from tests.contract.redis.task_on_redis import TaskOnRedis
from tests.contract.redis.task_under_test import TaskUnderTest
from tests.contract.samples import TASK


def test_items_wait_until_they_are_removed(task: TaskUnderTest) -> None:
    task.create()
    task.inbox.add(TASK, ["b", "a"])
    task.inbox.add(TASK, ["b"])
    task.inbox.add(TASK, [])
    assert list(task.snapshot.item_ids) == ["a", "b"]
    task.inbox.remove(TASK, "a")
    task.inbox.remove(TASK, "a")
    task.inbox.remove(TASK, "unknown")
    assert list(task.snapshot.item_ids) == ["b"]
    task.inbox.add(TASK, ["a"])
    task.inbox.remove(TASK, "b")
    assert list(task.snapshot.item_ids) == ["a"]


@pytest.mark.parametrize("ended", [False, True])
def test_an_inbox_without_an_open_task_expires(redis_task: TaskOnRedis, ended: bool) -> None:
    if ended:
        redis_task.create()
        redis_task.record_decision(Phase.END)
    redis_task.inbox.add(TASK, ["late"])
    key = redis_task.keys.inbox(TASK)
    assert redis_task.client.ttl(key) > 0
    redis_task.client.delete(redis_task.keys.state(TASK))
    redis_task.create()
    assert redis_task.client.ttl(key) == -1
    redis_task.client.expire(key, 100)
    redis_task.inbox.add(TASK, ["more"])
    assert redis_task.client.ttl(key) == -1


def test_an_unreachable_redis_raises_a_transient_error(unreachable_task: TaskOnRedis) -> None:
    uses: list[Callable[[], object]] = [
        lambda: unreachable_task.inbox.add(TASK, ["a"]),
        lambda: unreachable_task.inbox.remove(TASK, "a"),
    ]
    for use in uses:
        with pytest.raises(TransientError, match="redis does not answer"):
            use()
