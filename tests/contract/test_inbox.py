"""The inbox: which items wait for a task."""

from collections.abc import Callable

import pytest

from roboco.errors import TransientError
from roboco.ports.leases import LeaseStatus
from roboco.ports.task_store import Phase
from tests.contract.a_task import ATask
from tests.contract.samples import TASK
from tests.contract.task_on_redis import TaskOnRedis


def test_items_wait_until_they_are_taken_over(task: ATask) -> None:
    task.create()
    task.inbox.add(TASK, ["b", "a"])
    task.inbox.add(TASK, ["b"])
    task.inbox.add(TASK, [])
    assert list(task.now.item_ids) == ["a", "b"]
    task.inbox.remove(TASK, "a")
    task.inbox.remove(TASK, "a")
    task.inbox.remove(TASK, "never there")
    assert list(task.now.item_ids) == ["b"]
    task.inbox.add(TASK, ["a"])
    task.inbox.remove(TASK, "b")
    assert list(task.now.item_ids) == ["a"]


def test_many_items_are_noted(task: ATask) -> None:
    """A Lua call takes some 8,000 values at most."""
    task.create()
    ids = [f"item{number:05d}" for number in range(9_000)]
    task.inbox.add(TASK, ids)
    assert task.inbox.count(TASK) == len(ids)
    assert list(task.now.item_ids) == ids


@pytest.mark.parametrize("ended", [False, True])
def test_an_inbox_without_an_open_task_does_not_stay(redis_task: TaskOnRedis, ended: bool) -> None:
    if ended:
        redis_task.create()
        redis_task.choose(Phase.END)
    redis_task.inbox.add(TASK, ["late"])
    key = redis_task.keys.inbox(TASK)
    assert redis_task.client.ttl(key) > 0
    redis_task.client.delete(redis_task.keys.state(TASK))
    redis_task.create()
    assert redis_task.client.ttl(key) == -1
    redis_task.client.expire(key, 100)
    redis_task.inbox.add(TASK, ["more"])
    assert redis_task.client.ttl(key) == -1


def test_a_hold_keeps_workers_from_a_turn_that_none_has_claimed(task: ATask) -> None:
    task.create()
    task.choose()
    order = task.order()
    task.inbox.add(TASK, ["pause"], block_claim=True)
    assert task.now.cancel_requested_for is not None
    assert task.turns.claim(order, "me", 10) is None


def test_a_hold_lets_a_claimed_turn_go_on(task: ATask) -> None:
    task.create()
    task.choose()
    claim = task.claim()
    task.inbox.add(TASK, ["pause"], block_claim=True)
    assert task.now.cancel_requested_for is None
    assert task.turns.renew(claim) is LeaseStatus.HELD


def test_an_item_outlasts_whatever_the_task_does(task: ATask) -> None:
    task.create()
    task.inbox.add(TASK, ["a"])
    task.choose()
    task.claim()
    assert task.commit()
    assert list(task.now.item_ids) == ["a"]


def test_an_item_may_come_before_its_task(task: ATask) -> None:
    task.inbox.add(TASK, ["stop"])
    assert task.board.load(TASK, 1) is None
    task.create()
    assert list(task.now.item_ids) == ["stop"]


def test_tasks_have_inboxes_of_their_own(task: ATask) -> None:
    task.create()
    task.inbox.add(f"{TASK}0", ["a"])
    task.inbox.remove(f"{TASK}0", "b")
    assert list(task.now.item_ids) == []


def test_without_an_answer(unreachable_task: TaskOnRedis) -> None:
    uses: list[Callable[[], object]] = [
        lambda: unreachable_task.inbox.add(TASK, ["a"]),
        lambda: unreachable_task.inbox.remove(TASK, "a"),
    ]
    for use in uses:
        with pytest.raises(TransientError, match="redis does not answer"):
            use()
