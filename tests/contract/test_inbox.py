"""The inbox: which items wait for a task."""

from collections.abc import Callable

import pytest

from roboco.errors import TransientError
from tests.contract.a_task import ATask
from tests.contract.samples import TASK
from tests.contract.task_on_redis import TaskOnRedis


def test_items_wait_until_they_are_taken_over(task: ATask) -> None:
    task.create()
    task.inbox.knock(TASK, ["b", "a"])
    task.inbox.knock(TASK, ["b"])
    task.inbox.knock(TASK, [])
    assert list(task.now.item_ids) == ["a", "b"]
    task.inbox.forget(TASK, "a")
    task.inbox.forget(TASK, "a")
    task.inbox.forget(TASK, "never there")
    assert list(task.now.item_ids) == ["b"]
    task.inbox.knock(TASK, ["a"])
    task.inbox.forget(TASK, "b")
    assert list(task.now.item_ids) == ["a"]


def test_an_item_outlasts_whatever_the_task_does(task: ATask) -> None:
    task.create()
    task.inbox.knock(TASK, ["a"])
    task.choose()
    task.claim()
    assert task.commit()
    assert list(task.now.item_ids) == ["a"]


def test_an_item_may_come_before_its_task(task: ATask) -> None:
    task.inbox.knock(TASK, ["stop"])
    assert task.board.load(TASK, 1) is None
    task.create()
    assert list(task.now.item_ids) == ["stop"]


def test_tasks_have_inboxes_of_their_own(task: ATask) -> None:
    task.create()
    task.inbox.knock(f"{TASK}0", ["a"])
    task.inbox.forget(f"{TASK}0", "b")
    assert list(task.now.item_ids) == []


def test_without_an_answer(unreachable_task: TaskOnRedis) -> None:
    uses: list[Callable[[], object]] = [
        lambda: unreachable_task.inbox.knock(TASK, ["a"]),
        lambda: unreachable_task.inbox.forget(TASK, "a"),
    ]
    for use in uses:
        with pytest.raises(TransientError, match="redis does not answer"):
            use()
