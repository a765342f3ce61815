"""The schedule: when the sweeper looks at a task again."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from roboco.adapters.local.valkey import start_valkey
from roboco.adapters.redis.client import connect
from roboco.adapters.redis.keys import Keys
from roboco.adapters.redis.schedule import RedisSchedule
from roboco.adapters.redis.scripts import Scripts
from roboco.domain.paths import ENTER, RESTART, TELLING
from roboco.errors import TransientError
from roboco.ports import Schedule
from tests.contract.a_task import SHORT, ATask
from tests.contract.task_on_redis import TaskOnRedis

LATER = 3600.0


@pytest.fixture
def schedule(task: ATask) -> Schedule:
    return task.schedule


def test_due_tasks_come_in_the_order_of_their_times(schedule: Schedule) -> None:
    assert schedule.due(10) == []
    for task_id, delay in (("b", -20), ("c", -10), ("a", -15), ("later", LATER), ("first", -90)):
        schedule.put(task_id, delay)
    assert schedule.due(10) == ["first", "b", "a", "c"]
    assert schedule.due(2) == ["first", "b"]
    assert schedule.due(10) == ["first", "b", "a", "c"], "to look is not to take"


def test_a_delay_passes(task: ATask) -> None:
    task.schedule.put("a", SHORT)
    task.outlive(SHORT)
    assert task.schedule.due(10) == ["a"]


def test_a_time_is_replaced(schedule: Schedule) -> None:
    schedule.put("a")
    schedule.put("a", LATER)
    assert schedule.due(10) == []
    schedule.put("a", -10)
    assert schedule.due(10) == ["a"]


def test_a_look_is_hastened_and_never_put_off(schedule: Schedule) -> None:
    schedule.schedule_no_later_than("a", LATER)
    assert schedule.due(10) == []
    schedule.schedule_no_later_than("a", -1)
    schedule.schedule_no_later_than("a", LATER)
    assert schedule.due(10) == ["a"]


def test_a_time_that_stands_is_not_replaced_by_an_addition(schedule: Schedule) -> None:
    schedule.put("a", LATER)
    assert not schedule.add("a")
    assert schedule.due(10) == []
    schedule.add("b", -1)
    assert not schedule.add("b", LATER)
    assert schedule.due(10) == ["b"]


def test_an_addition_tells_whether_it_was_one(redis_task: TaskOnRedis) -> None:
    assert [redis_task.schedule.add("a") for _ in range(2)] == [True, False]


def test_a_task_is_dropped(schedule: Schedule) -> None:
    schedule.drop("a")
    schedule.put("a", -2)
    schedule.put("b", -1)
    schedule.drop("a")
    schedule.drop("a")
    assert schedule.due(10) == ["b"]
    schedule.add("a", -3)
    assert schedule.due(10) == ["a", "b"]


def test_notifications_are_due_among_the_tasks_and_stay_when_tasks_go(schedule: Schedule) -> None:
    telling = f"{TELLING}a"
    schedule.put("a", -3)
    schedule.put("b", -1)
    schedule.put(telling, -2)
    assert schedule.due(10) == ["a", telling, "b"]
    assert schedule.due(2) == ["a", telling]
    schedule.drop("a")
    schedule.schedule_no_later_than(telling, -4)
    schedule.add(telling, LATER)
    assert schedule.due(1) == [telling]
    schedule.drop(telling)
    assert schedule.due(10) == ["b"]


def test_every_task_with_a_time_is_known(schedule: Schedule) -> None:
    names = {f"task{number}" for number in range(1200)}
    for name in names:
        schedule.put(name, LATER)
    schedule.put(f"{TELLING}task1")
    assert set(schedule.known()) == names


def test_only_tasks_count_as_open(redis_task: TaskOnRedis) -> None:
    for name in ("a", "b", f"{TELLING}a", f"{TELLING}gone"):
        redis_task.schedule.put(name)
    assert redis_task.schedule.count() == 2


def test_one_sweeper_sweeps(schedule: Schedule) -> None:
    assert schedule.lock("me", 60)
    assert not schedule.lock("you", 60)
    assert not schedule.lock("they", 0.1)


def test_a_lock_ends(task: ATask) -> None:
    task.schedule.lock("me", SHORT)
    task.outlive(SHORT)
    task.schedule.lock("you", 60)
    assert not task.schedule.lock("they", 60)


def test_one_of_many_sweepers_gets_the_lock(redis_task: TaskOnRedis) -> None:
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda number: redis_task.schedule.lock(str(number), 60), range(8))).count(True) == 1


def test_a_lost_schedule_is_noticed(task: ATask) -> None:
    assert not task.schedule.intact()
    assert not task.schedule.restarted()
    task.schedule.begin(60)
    assert task.schedule.intact()
    assert not task.schedule.restarted()
    task.schedule.put("a")
    task.wipe()
    assert not task.schedule.intact()
    assert not task.schedule.restarted()
    assert not task.schedule.fresh()
    assert task.schedule.due(10) == []
    task.schedule.begin(60)
    assert task.schedule.intact()


def test_a_task_is_recovered_when_nothing_waits_to_be_done_for_it(task: ATask) -> None:
    assert task.schedule.recovered("a") is None, "no sweep has been made"
    task.schedule.begin(LATER)
    assert task.schedule.recovered("a") == task.schedule.run()
    for kind in (RESTART, ENTER):
        task.schedule.put(f"{kind}a")
        assert task.schedule.recovered("a") is None
        assert task.schedule.recovered("b") == task.schedule.run()
        task.schedule.drop(f"{kind}a")
    assert task.schedule.recovered("a") == task.schedule.run()


def test_a_mark_that_redis_has_lost_confirms_nothing(task: ATask) -> None:
    """Redis was emptied while the schedule was filled."""
    schedule = task.schedule
    first = schedule.prepare()
    assert schedule.prepare() == first, "sweepers at the same time share it"
    assert not schedule.intact()
    assert schedule.recovered("a") is None
    schedule.begin(60, first)
    assert schedule.intact()
    assert not schedule.restarted()
    schedule.begin(60, first)
    assert schedule.intact(), "also by the sweeper that is done later"
    whole = schedule.prepare()
    assert schedule.intact(), "a schedule that is filled from time to time stays intact"
    schedule.begin(60, whole)
    assert schedule.fresh()
    task.wipe()
    schedule.begin(60, whole)
    assert not schedule.intact()
    assert not schedule.fresh()
    lost = schedule.prepare()
    task.wipe()
    schedule.begin(60, lost)
    assert not schedule.intact()
    assert schedule.prepare() != lost
    schedule.begin(60, lost)
    assert not schedule.intact()


def test_an_entry_that_was_put_since_is_not_dropped(schedule: Schedule) -> None:
    schedule.put("restart/a", -10)
    at = schedule.at("restart/a")
    assert at is not None
    schedule.put("restart/a", -5)
    schedule.drop("restart/a", at)
    assert schedule.due(10) == ["restart/a"]
    schedule.drop("restart/a", schedule.at("restart/a"))
    assert schedule.due(10) == []
    assert schedule.at("restart/a") is None
    schedule.drop("restart/a", at)


@pytest.mark.redis
@pytest.mark.usefixtures("valkey")
def test_an_schedule_of_an_earlier_run_is_not_intact(tmp_path: Path) -> None:
    """A server that was started again may have lost its last second."""
    for first in (True, False):
        server = start_valkey(tmp_path)
        try:
            with connect(server.url) as client:
                schedule = RedisSchedule(Scripts(client), Keys())
                assert schedule.due(10) == ([] if first else ["a"])
                assert (schedule.intact(), schedule.restarted()) == (False, not first)
                assert schedule.recovered("a") is None
                mark = schedule.prepare()
                assert (schedule.intact(), schedule.restarted()) == (False, not first)
                schedule.begin(60, mark)
                schedule.put("a")
                assert (schedule.intact(), schedule.restarted()) == (True, False)
        finally:
            server.stop()


def test_a_beginning_is_fresh_for_a_while(task: ATask) -> None:
    assert not task.schedule.fresh()
    task.schedule.begin(SHORT)
    task.outlive(SHORT)
    assert not task.schedule.fresh()
    task.schedule.begin(SHORT)
    task.schedule.begin(60)
    task.outlive(SHORT)
    assert task.schedule.fresh()
    assert task.schedule.intact()


def test_without_an_answer(unreachable_task: TaskOnRedis) -> None:
    schedule = unreachable_task.schedule
    uses: list[Callable[[], object]] = [
        lambda: schedule.put("a"),
        lambda: schedule.add("a"),
        lambda: schedule.due(1),
        schedule.count,
        lambda: schedule.drop("a"),
        lambda: schedule.lock("me", 1),
        schedule.intact,
        schedule.restarted,
        schedule.fresh,
        lambda: schedule.begin(1),
    ]
    for use in uses:
        with pytest.raises(TransientError, match="redis does not answer"):
            use()
