"""The inbox: the items that wait for a task."""

from collections.abc import Callable

import pytest

from roboco.errors import TransientError
from roboco.ports.lease_renewals import LeaseStatus
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


def test_many_items_are_added(task: TaskUnderTest) -> None:
    """A call of Lua takes about 8,000 values at most."""
    task.create()
    ids = [f"item{number:05d}" for number in range(9_000)]
    task.inbox.add(TASK, ids)
    assert task.inbox.count(TASK) == len(ids)
    assert list(task.snapshot.item_ids) == ids


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


def test_a_pause_blocks_the_claim_of_an_unclaimed_turn(task: TaskUnderTest) -> None:
    task.create()
    task.record_decision()
    assignment = task.turn_assignment()
    task.inbox.add(TASK, ["pause"], block_claim=True)
    assert task.snapshot.attempt.cancel_requested_for is not None
    assert task.leases.claim_turn(assignment, "me", 10) is None


def test_a_pause_lets_a_claimed_turn_continue(task: TaskUnderTest) -> None:
    task.create()
    task.record_decision()
    claim = task.claim()
    task.inbox.add(TASK, ["pause"], block_claim=True)
    assert task.snapshot.attempt.cancel_requested_for is None
    assert task.leases.renew_turn(claim) is LeaseStatus.HELD


def test_an_item_waits_through_decisions_and_commits(task: TaskUnderTest) -> None:
    task.create()
    task.inbox.add(TASK, ["a"])
    task.record_decision()
    task.claim()
    assert task.commit()
    assert list(task.snapshot.item_ids) == ["a"]


def test_an_item_is_kept_for_a_task_that_is_created_later(task: TaskUnderTest) -> None:
    task.inbox.add(TASK, ["stop"])
    assert task.store.load(TASK, 1) is None
    task.create()
    assert list(task.snapshot.item_ids) == ["stop"]


def test_each_task_has_its_own_inbox(task: TaskUnderTest) -> None:
    task.create()
    task.inbox.add(f"{TASK}0", ["a"])
    task.inbox.remove(f"{TASK}0", "b")
    assert list(task.snapshot.item_ids) == []


def test_an_unreachable_redis_raises_a_transient_error(unreachable_task: TaskOnRedis) -> None:
    uses: list[Callable[[], object]] = [
        lambda: unreachable_task.inbox.add(TASK, ["a"]),
        lambda: unreachable_task.inbox.remove(TASK, "a"),
    ]
    for use in uses:
        with pytest.raises(TransientError, match="redis does not answer"):
            use()
