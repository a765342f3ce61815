"""The agenda: when the sweeper looks at a task again."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from roboco.adapters.local.valkey import start_valkey
from roboco.adapters.redis.agenda import RedisAgenda
from roboco.adapters.redis.client import connect
from roboco.adapters.redis.keys import Keys
from roboco.domain.paths import TELLING
from roboco.errors import TransientError
from roboco.ports import Agenda
from tests.contract.a_task import SHORT, ATask
from tests.contract.task_on_redis import TaskOnRedis

NOW = 1_800_000_000.5
ALWAYS = NOW * 2


@pytest.fixture
def agenda(task: ATask) -> Agenda:
    return task.agenda


def test_tasks_whose_time_has_come_are_due_in_order(agenda: Agenda) -> None:
    assert agenda.due(ALWAYS, 10) == []
    for task_id, at in (("b", NOW - 1), ("c", NOW), ("a", NOW - 0.25), ("later", NOW + 0.25), ("first", 0)):
        agenda.put(task_id, at)
    assert agenda.due(NOW, 10) == ["first", "b", "a", "c"]
    assert agenda.due(NOW, 2) == ["first", "b"]
    assert agenda.due(NOW, 10) == ["first", "b", "a", "c"], "to look is not to take"
    assert agenda.due(NOW + 1, 10)[-1] == "later"


def test_a_time_is_replaced(agenda: Agenda) -> None:
    agenda.put("a", NOW)
    agenda.put("a", NOW + 10)
    assert agenda.due(NOW + 9, 10) == []
    agenda.put("a", NOW - 10)
    assert agenda.due(NOW, 10) == ["a"]


def test_a_look_is_hastened_and_never_put_off(agenda: Agenda) -> None:
    agenda.hasten("a", NOW)
    agenda.hasten("a", NOW + 10)
    assert agenda.due(NOW, 10) == ["a"]
    agenda.hasten("a", NOW - 10)
    assert agenda.due(NOW - 10, 10) == ["a"]


def test_a_time_that_stands_is_not_replaced_by_an_addition(agenda: Agenda) -> None:
    agenda.put("a", NOW)
    assert not agenda.add("a", 0)
    agenda.add("b", NOW)
    assert not agenda.add("b", 0)
    assert agenda.due(NOW - 1, 10) == []
    assert agenda.due(NOW, 10) == ["a", "b"]


def test_an_addition_tells_whether_it_was_one(redis_task: TaskOnRedis) -> None:
    assert [redis_task.agenda.add("a", NOW) for _ in range(2)] == [True, False]


def test_a_task_is_dropped(agenda: Agenda) -> None:
    agenda.drop("a")
    agenda.put("a", NOW)
    agenda.put("b", NOW)
    agenda.drop("a")
    agenda.drop("a")
    assert agenda.due(NOW, 10) == ["b"]
    agenda.add("a", NOW)
    assert agenda.due(NOW, 10) == ["a", "b"]


def test_what_is_to_be_told_is_due_among_the_tasks_and_stays_when_they_go(agenda: Agenda) -> None:
    telling = f"{TELLING}a"
    agenda.put("a", NOW - 2)
    agenda.put("b", NOW)
    agenda.put(telling, NOW - 1)
    assert agenda.due(NOW, 10) == ["a", telling, "b"]
    assert agenda.due(NOW, 2) == ["a", telling]
    agenda.drop("a")
    agenda.hasten(telling, NOW - 3)
    agenda.add(telling, 0)
    assert agenda.due(NOW - 2, 10) == [telling]
    agenda.drop(telling)
    assert agenda.due(ALWAYS, 10) == ["b"]


def test_only_tasks_count_as_open(redis_task: TaskOnRedis) -> None:
    agenda = RedisAgenda(redis_task.client, redis_task.keys)
    for name in ("a", "b", f"{TELLING}a", f"{TELLING}gone"):
        agenda.put(name, NOW)
    assert agenda.count() == 2


def test_one_sweeper_sweeps(agenda: Agenda) -> None:
    assert agenda.lock("me", 60)
    assert not agenda.lock("you", 60)
    assert not agenda.lock("they", 0.1)


def test_a_lock_ends(task: ATask) -> None:
    task.agenda.lock("me", SHORT)
    task.outlive(SHORT)
    task.agenda.lock("you", 60)
    assert not task.agenda.lock("they", 60)


def test_one_of_many_sweepers_gets_the_lock(redis_task: TaskOnRedis) -> None:
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda number: redis_task.agenda.lock(str(number), 60), range(8))).count(True) == 1


def test_a_lost_agenda_is_noticed(task: ATask) -> None:
    assert not task.agenda.intact()
    assert not task.agenda.restarted()
    task.agenda.begin(60)
    assert task.agenda.intact()
    assert not task.agenda.restarted()
    task.agenda.put("a", NOW)
    task.wipe()
    assert not task.agenda.intact()
    assert not task.agenda.restarted()
    assert not task.agenda.fresh()
    assert task.agenda.due(ALWAYS, 10) == []
    task.agenda.begin(60)
    assert task.agenda.intact()


@pytest.mark.redis
@pytest.mark.usefixtures("valkey")
def test_an_agenda_of_an_earlier_run_is_not_intact(tmp_path: Path) -> None:
    """A server that was started again may have lost its last second."""
    for first in (True, False):
        server = start_valkey(tmp_path)
        try:
            with connect(server.url) as client:
                agenda = RedisAgenda(client, Keys())
                assert agenda.due(ALWAYS, 10) == ([] if first else ["a"])
                assert (agenda.intact(), agenda.restarted()) == (False, not first)
                agenda.begin(60)
                agenda.put("a", NOW)
                assert (agenda.intact(), agenda.restarted()) == (True, False)
        finally:
            server.stop()


def test_a_beginning_is_fresh_for_a_while(task: ATask) -> None:
    assert not task.agenda.fresh()
    task.agenda.begin(SHORT)
    task.outlive(SHORT)
    assert not task.agenda.fresh()
    task.agenda.begin(SHORT)
    task.agenda.begin(60)
    task.outlive(SHORT)
    assert task.agenda.fresh()
    assert task.agenda.intact()


def test_without_an_answer(unreachable_task: TaskOnRedis) -> None:
    agenda = unreachable_task.agenda
    uses: list[Callable[[], object]] = [
        lambda: agenda.put("a", NOW),
        lambda: agenda.add("a", NOW),
        lambda: agenda.due(NOW, 1),
        RedisAgenda(unreachable_task.client, unreachable_task.keys).count,
        lambda: agenda.drop("a"),
        lambda: agenda.lock("me", 1),
        agenda.intact,
        agenda.restarted,
        agenda.fresh,
        lambda: agenda.begin(1),
    ]
    for use in uses:
        with pytest.raises(TransientError, match="redis does not answer"):
            use()
