"""The agenda: when the sweeper looks at a task again."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from roboco.adapters.local.valkey import start_valkey
from roboco.adapters.redis.client import connect
from roboco.adapters.redis.keys import Keys
from roboco.adapters.redis.schedule import RedisAgenda
from roboco.adapters.redis.scripts import Scripts
from roboco.domain.paths import ENTER, RESTART, TELLING
from roboco.errors import TransientError
from roboco.ports import Agenda
from tests.contract.a_task import SHORT, ATask
from tests.contract.task_on_redis import TaskOnRedis

LATER = 3600.0


@pytest.fixture
def agenda(task: ATask) -> Agenda:
    return task.agenda


def test_due_tasks_come_in_the_order_of_their_times(agenda: Agenda) -> None:
    assert agenda.due(10) == []
    for task_id, delay in (("b", -20), ("c", -10), ("a", -15), ("later", LATER), ("first", -90)):
        agenda.put(task_id, delay)
    assert agenda.due(10) == ["first", "b", "a", "c"]
    assert agenda.due(2) == ["first", "b"]
    assert agenda.due(10) == ["first", "b", "a", "c"], "to look is not to take"


def test_a_delay_passes(task: ATask) -> None:
    task.agenda.put("a", SHORT)
    task.outlive(SHORT)
    assert task.agenda.due(10) == ["a"]


def test_a_time_is_replaced(agenda: Agenda) -> None:
    agenda.put("a")
    agenda.put("a", LATER)
    assert agenda.due(10) == []
    agenda.put("a", -10)
    assert agenda.due(10) == ["a"]


def test_a_look_is_hastened_and_never_put_off(agenda: Agenda) -> None:
    agenda.hasten("a", LATER)
    assert agenda.due(10) == []
    agenda.hasten("a", -1)
    agenda.hasten("a", LATER)
    assert agenda.due(10) == ["a"]


def test_a_time_that_stands_is_not_replaced_by_an_addition(agenda: Agenda) -> None:
    agenda.put("a", LATER)
    assert not agenda.add("a")
    assert agenda.due(10) == []
    agenda.add("b", -1)
    assert not agenda.add("b", LATER)
    assert agenda.due(10) == ["b"]


def test_an_addition_tells_whether_it_was_one(redis_task: TaskOnRedis) -> None:
    assert [redis_task.agenda.add("a") for _ in range(2)] == [True, False]


def test_a_task_is_dropped(agenda: Agenda) -> None:
    agenda.drop("a")
    agenda.put("a", -2)
    agenda.put("b", -1)
    agenda.drop("a")
    agenda.drop("a")
    assert agenda.due(10) == ["b"]
    agenda.add("a", -3)
    assert agenda.due(10) == ["a", "b"]


def test_notifications_are_due_among_the_tasks_and_stay_when_tasks_go(agenda: Agenda) -> None:
    telling = f"{TELLING}a"
    agenda.put("a", -3)
    agenda.put("b", -1)
    agenda.put(telling, -2)
    assert agenda.due(10) == ["a", telling, "b"]
    assert agenda.due(2) == ["a", telling]
    agenda.drop("a")
    agenda.hasten(telling, -4)
    agenda.add(telling, LATER)
    assert agenda.due(1) == [telling]
    agenda.drop(telling)
    assert agenda.due(10) == ["b"]


def test_every_task_with_a_time_is_known(agenda: Agenda) -> None:
    names = {f"task{number}" for number in range(1200)}
    for name in names:
        agenda.put(name, LATER)
    agenda.put(f"{TELLING}task1")
    assert set(agenda.known()) == names


def test_only_tasks_count_as_open(redis_task: TaskOnRedis) -> None:
    for name in ("a", "b", f"{TELLING}a", f"{TELLING}gone"):
        redis_task.agenda.put(name)
    assert redis_task.agenda.count() == 2


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
    task.agenda.put("a")
    task.wipe()
    assert not task.agenda.intact()
    assert not task.agenda.restarted()
    assert not task.agenda.fresh()
    assert task.agenda.due(10) == []
    task.agenda.begin(60)
    assert task.agenda.intact()


def test_a_task_is_recovered_when_nothing_waits_to_be_done_for_it(task: ATask) -> None:
    assert task.agenda.recovered("a") is None, "no sweep has been made"
    task.agenda.begin(LATER)
    assert task.agenda.recovered("a") == task.agenda.run()
    for kind in (RESTART, ENTER):
        task.agenda.put(f"{kind}a")
        assert task.agenda.recovered("a") is None
        assert task.agenda.recovered("b") == task.agenda.run()
        task.agenda.drop(f"{kind}a")
    assert task.agenda.recovered("a") == task.agenda.run()


def test_a_mark_that_redis_has_lost_confirms_nothing(task: ATask) -> None:
    """Redis was emptied while the schedule was filled."""
    agenda = task.agenda
    first = agenda.prepare()
    assert agenda.prepare() == first, "sweepers at the same time share it"
    assert not agenda.intact()
    assert agenda.recovered("a") is None
    agenda.begin(60, first)
    assert agenda.intact()
    assert not agenda.restarted()
    agenda.begin(60, first)
    assert agenda.intact(), "also by the sweeper that is done later"
    whole = agenda.prepare()
    assert agenda.intact(), "a schedule that is filled from time to time stays intact"
    agenda.begin(60, whole)
    assert agenda.fresh()
    task.wipe()
    agenda.begin(60, whole)
    assert not agenda.intact()
    assert not agenda.fresh()
    lost = agenda.prepare()
    task.wipe()
    agenda.begin(60, lost)
    assert not agenda.intact()
    assert agenda.prepare() != lost
    agenda.begin(60, lost)
    assert not agenda.intact()


def test_an_entry_that_was_put_since_is_not_dropped(agenda: Agenda) -> None:
    agenda.put("restart/a", -10)
    at = agenda.at("restart/a")
    assert at is not None
    agenda.put("restart/a", -5)
    agenda.drop("restart/a", at)
    assert agenda.due(10) == ["restart/a"]
    agenda.drop("restart/a", agenda.at("restart/a"))
    assert agenda.due(10) == []
    assert agenda.at("restart/a") is None
    agenda.drop("restart/a", at)


@pytest.mark.redis
@pytest.mark.usefixtures("valkey")
def test_an_agenda_of_an_earlier_run_is_not_intact(tmp_path: Path) -> None:
    """A server that was started again may have lost its last second."""
    for first in (True, False):
        server = start_valkey(tmp_path)
        try:
            with connect(server.url) as client:
                agenda = RedisAgenda(Scripts(client), Keys())
                assert agenda.due(10) == ([] if first else ["a"])
                assert (agenda.intact(), agenda.restarted()) == (False, not first)
                assert agenda.recovered("a") is None
                mark = agenda.prepare()
                assert (agenda.intact(), agenda.restarted()) == (False, not first)
                agenda.begin(60, mark)
                agenda.put("a")
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
        lambda: agenda.put("a"),
        lambda: agenda.add("a"),
        lambda: agenda.due(1),
        agenda.count,
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
