"""The schedule: the time of the sweeper's next pass over each task."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

import pytest
from redis.crc import key_slot
from redis.exceptions import OutOfMemoryError

from roboco.domain.paths import ENTER_PREFIX, NOTIFY_PREFIX, RESTART_PREFIX
from roboco.domain.shard import SHARDS, SLOTS, shard_of
from roboco.errors import TransientError
from roboco.local.valkey import start_valkey
from roboco.ports.scans import Rebuild
from roboco.ports.schedule import Schedule
from roboco.redis.client import connect
from roboco.redis.keys import Keys
from roboco.redis.schedule import RedisSchedule
from roboco.redis.scripts import Scripts
from roboco.redis.task_index import RedisTaskIndex
from tests.contract.redis.sweeper.due_names import due_at, due_names
from tests.contract.redis.task_on_redis import TaskOnRedis
from tests.contract.redis.task_under_test import TaskUnderTest

LONG_DELAY = 3600.0
SHORT_DELAY = 0.03


@pytest.fixture
def schedule(task: TaskUnderTest) -> Schedule:
    return task.schedule


def test_due_tasks_are_ordered_by_their_times(schedule: Schedule) -> None:
    assert due_names(schedule) == []
    for task_id, delay in (("b", -20), ("c", -10), ("a", -15), ("later", LONG_DELAY), ("first", -90)):
        schedule.set(task_id, delay)
    assert due_names(schedule) == ["first", "b", "a", "c"]
    assert due_names(schedule, 2) == ["first", "b"]
    assert due_names(schedule) == ["first", "b", "a", "c"], "reading the due tasks does not remove them"


def test_a_task_is_due_after_its_delay(task: TaskUnderTest) -> None:
    task.schedule.set("a", SHORT_DELAY)
    task.pass_time(SHORT_DELAY)
    assert due_names(task.schedule) == ["a"]


def test_a_new_time_replaces_the_old_one(schedule: Schedule) -> None:
    schedule.set("a")
    schedule.set("a", LONG_DELAY)
    assert due_names(schedule) == []
    schedule.set("a", -10)
    assert due_names(schedule) == ["a"]


def test_schedule_no_later_than_never_postpones_a_task(schedule: Schedule) -> None:
    schedule.schedule_no_later_than("a", LONG_DELAY)
    assert due_names(schedule) == []
    schedule.schedule_no_later_than("a", -1)
    schedule.schedule_no_later_than("a", LONG_DELAY)
    assert due_names(schedule) == ["a"]


def test_a_task_is_removed_from_the_schedule(schedule: Schedule) -> None:
    schedule.remove("a")
    schedule.set("a", -2)
    schedule.set("b", -1)
    schedule.remove("a")
    schedule.remove("a")
    assert due_names(schedule) == ["b"]
    schedule.enter(["a"], -3, replace=False)
    assert due_names(schedule) == ["a", "b"]


def test_notifications_are_due_among_the_tasks_and_removed_separately(schedule: Schedule) -> None:
    notification = f"{NOTIFY_PREFIX}a"
    schedule.set("a", -3)
    schedule.set("b", -1)
    schedule.set(notification, -2)
    assert due_names(schedule) == ["a", notification, "b"]
    assert due_names(schedule, 2) == ["a", notification]
    schedule.remove("a")
    schedule.schedule_no_later_than(notification, -4)
    schedule.enter([notification], LONG_DELAY, replace=False)
    assert due_names(schedule, 1) == [notification]
    schedule.remove(notification)
    assert due_names(schedule) == ["b"]


def test_every_scheduled_task_is_listed(schedule: Schedule) -> None:
    names = {f"task{number}" for number in range(1200)}
    for name in names:
        schedule.set(name, LONG_DELAY)
    schedule.set(f"{NOTIFY_PREFIX}task1")
    assert set(schedule.task_ids()) == names


def test_only_tasks_count_as_open(redis_task: TaskOnRedis) -> None:
    for name in ("a", "b", f"{NOTIFY_PREFIX}a", f"{NOTIFY_PREFIX}gone"):
        redis_task.schedule.set(name)
    assert redis_task.schedule.count() == 2


def names_of_shard(shard: int, count: int) -> list[str]:
    """Return task ids of a shard."""
    return list(islice((name for name in map("task{}".format, range(9999)) if shard_of(name) == shard), count))


def test_claimed_entries_are_the_earliest_of_their_shard(schedule: Schedule) -> None:
    first, second, third, later = names_of_shard(5, 4)
    job = f"{NOTIFY_PREFIX}{first}"
    for name, delay in ((second, -20), (first, -30), (job, -25), (third, -10), (later, LONG_DELAY)):
        schedule.set(name, delay)
    schedule.set(names_of_shard(6, 1)[0])
    claimed = schedule.claim(5, 3, LONG_DELAY)
    assert [entry.name for entry in claimed] == [first, job, second]
    assert [entry.overdue // 5 for entry in claimed] == [6, 5, 4]
    assert [entry.name for entry in schedule.claim(5, 3, LONG_DELAY)] == [third]
    assert schedule.claim(5, 3, LONG_DELAY) == []


def test_a_claimed_entry_is_due_again_after_the_claim(task: TaskUnderTest) -> None:
    task.schedule.set("a", -10)
    shard = shard_of("a")
    assert [entry.name for entry in task.schedule.claim(shard, 5, SHORT_DELAY)] == ["a"]
    task.pass_time(SHORT_DELAY)
    assert [entry.name for entry in task.schedule.claim(shard, 5, LONG_DELAY)] == ["a"]


def test_the_time_of_a_claim_is_the_due_time_of_its_entry(schedule: Schedule) -> None:
    for name in ("a", f"{RESTART_PREFIX}a"):
        schedule.set(name, -10)
    for entry in schedule.claim(shard_of("a"), 2, LONG_DELAY):
        assert due_at(schedule, entry.name) == entry.at
        schedule.remove(entry.name, entry.at)
        assert due_at(schedule, entry.name) is None


def test_a_time_that_is_set_during_a_claim_counts(schedule: Schedule) -> None:
    schedule.set("a", -10)
    (entry,) = schedule.claim(shard_of("a"), 1, LONG_DELAY)
    schedule.set("a")
    schedule.remove("a", entry.at)
    assert [one.name for one in schedule.claim(shard_of("a"), 1, LONG_DELAY)] == ["a"]


def test_concurrent_claims_are_disjoint(redis_task: TaskOnRedis) -> None:
    names = names_of_shard(2, 40)
    redis_task.schedule.enter(names, -10)
    with ThreadPoolExecutor(8) as pool:
        claims = list(pool.map(lambda _: redis_task.schedule.claim(2, 5, LONG_DELAY), range(16)))
    assert sorted(entry.name for claim in claims for entry in claim) == sorted(names)


def test_many_entries_are_entered_at_once(schedule: Schedule) -> None:
    names = [f"task{number}" for number in range(1300)] + [f"{RESTART_PREFIX}task{number}" for number in range(40)]
    schedule.set("task7", LONG_DELAY)
    schedule.set("task9", LONG_DELAY)
    assert schedule.enter(names[:8], -20) == frozenset()
    assert schedule.enter(names, -10, replace=False) == frozenset()
    assert schedule.enter([]) == frozenset()
    due = due_names(schedule, 2000)
    assert set(due) == set(names) - {"task9"}
    assert set(due[:8]) == set(names[:8]), "their times are kept"


def test_a_scan_reads_the_tasks_of_a_shard_in_pages(schedule: Schedule) -> None:
    names = names_of_shard(4, 1100 // SHARDS)
    schedule.enter([*names, *names_of_shard(3, 5), f"{NOTIFY_PREFIX}{names[0]}"], LONG_DELAY)
    page = schedule.scan(4)
    found = set(page.task_ids)
    while page.cursor:
        page = schedule.scan(4, page.cursor)
        found |= set(page.task_ids)
    assert found == set(names)


def test_the_keys_of_a_shard_are_in_the_slots_of_its_tasks() -> None:
    keys = Keys()
    for shard in range(SHARDS):
        names = (keys.schedule(shard), keys.scheduled_jobs(shard), *map(keys.state, names_of_shard(shard, 20)))
        assert {key_slot(name.encode()) * SHARDS // SLOTS for name in names} == {shard}


def test_a_lost_schedule_is_not_intact(task: TaskUnderTest) -> None:
    assert not task.schedule.is_intact()
    assert not task.schedule.was_restarted()
    task.schedule.mark_filled(60)
    assert task.schedule.is_intact()
    assert not task.schedule.was_restarted()
    task.schedule.set("a")
    task.wipe()
    assert not task.schedule.is_intact()
    assert not task.schedule.was_restarted()
    assert not task.schedule.recently_filled()
    assert due_names(task.schedule) == []
    task.schedule.mark_filled(60)
    assert task.schedule.is_intact()


def test_a_task_is_recovered_if_no_restart_is_scheduled_for_it(task: TaskUnderTest) -> None:
    assert task.schedule.recovered_instance("a") is None, "the schedule was never filled"
    task.schedule.mark_filled(LONG_DELAY)
    assert task.schedule.recovered_instance("a") == task.schedule.instance_id()
    for kind in (RESTART_PREFIX, ENTER_PREFIX):
        task.schedule.set(f"{kind}a")
        assert task.schedule.recovered_instance("a") is None
        assert task.schedule.recovered_instance("b") == task.schedule.instance_id()
        task.schedule.remove(f"{kind}a")
    assert task.schedule.recovered_instance("a") == task.schedule.instance_id()


def test_a_lost_mark_does_not_make_the_schedule_intact(task: TaskUnderTest) -> None:
    """Redis is emptied while the schedule is filled."""
    schedule = task.schedule
    first = schedule.mark_filling()
    assert schedule.mark_filling() == first, "concurrent sweepers share the mark"
    assert not schedule.is_intact()
    assert schedule.recovered_instance("a") is None
    schedule.mark_filled(60, first)
    assert schedule.is_intact()
    assert not schedule.was_restarted()
    schedule.mark_filled(60, first)
    assert schedule.is_intact(), "a second sweeper finishes later"
    whole = schedule.mark_filling()
    assert schedule.is_intact(), "a refill keeps the schedule intact"
    schedule.mark_filled(60, whole)
    assert schedule.recently_filled()
    task.wipe()
    schedule.mark_filled(60, whole)
    assert not schedule.is_intact()
    assert not schedule.recently_filled()
    lost = schedule.mark_filling()
    task.wipe()
    schedule.mark_filled(60, lost)
    assert not schedule.is_intact()
    assert schedule.mark_filling() != lost
    schedule.mark_filled(60, lost)
    assert not schedule.is_intact()


def test_an_entry_with_a_newer_time_is_not_removed(schedule: Schedule) -> None:
    schedule.set("restart/a", -10)
    at = due_at(schedule, "restart/a")
    assert at is not None
    schedule.set("restart/a", -5)
    schedule.remove("restart/a", at)
    assert due_names(schedule) == ["restart/a"]
    schedule.remove("restart/a", due_at(schedule, "restart/a"))
    assert due_names(schedule) == []
    assert due_at(schedule, "restart/a") is None
    schedule.remove("restart/a", at)


@pytest.mark.redis
@pytest.mark.usefixtures("valkey")
def test_the_schedule_of_a_restarted_server_is_not_intact(tmp_path: Path) -> None:
    """A restarted server may have lost its last second."""
    for first in (True, False):
        server = start_valkey(tmp_path)
        try:
            with connect(server.url) as client:
                schedule = RedisSchedule(Scripts(client), Keys())
                assert due_names(schedule) == ([] if first else ["a"])
                assert (schedule.is_intact(), schedule.was_restarted()) == (False, not first)
                assert schedule.recovered_instance("a") is None
                mark = schedule.mark_filling()
                assert (schedule.is_intact(), schedule.was_restarted()) == (False, not first)
                schedule.mark_filled(60, mark)
                schedule.set("a")
                assert (schedule.is_intact(), schedule.was_restarted()) == (True, False)
        finally:
            server.stop()


def test_a_filled_schedule_is_recently_filled_for_a_while(task: TaskUnderTest) -> None:
    assert not task.schedule.recently_filled()
    task.schedule.mark_filled(SHORT_DELAY)
    task.pass_time(SHORT_DELAY)
    assert not task.schedule.recently_filled()
    task.schedule.mark_filled(SHORT_DELAY)
    task.schedule.mark_filled(60)
    task.pass_time(SHORT_DELAY)
    assert task.schedule.recently_filled()
    assert task.schedule.is_intact()


def test_an_unreachable_redis_raises_a_transient_error(unreachable_task: TaskOnRedis) -> None:
    schedule = unreachable_task.schedule
    uses: list[Callable[[], object]] = [
        lambda: schedule.set("a"),
        schedule.count,
        lambda: schedule.remove("a"),
        lambda: schedule.enter(["a"]),
        lambda: schedule.claim(0, 1, 1),
        lambda: schedule.scan(0),
        schedule.is_intact,
        schedule.was_restarted,
        schedule.recently_filled,
        lambda: schedule.mark_filled(1),
    ]
    for use in uses:
        with pytest.raises(TransientError, match="redis does not answer"):
            use()


@pytest.mark.redis
@pytest.mark.usefixtures("valkey")
def test_the_schedule_is_filled_although_the_memory_of_redis_is_full(tmp_path: Path) -> None:
    """Until it is filled no task ends, so that a stop would end none, and no memory would become free."""
    server = start_valkey(tmp_path)
    try:
        with connect(server.url) as client:
            scripts, keys = Scripts(client), Keys()
            schedule = RedisSchedule(scripts, keys)
            client.config_set("maxmemory", 1)
            with pytest.raises(OutOfMemoryError):
                client.set("a", 1)
            mark = schedule.mark_filling()
            assert not schedule.is_intact()
            schedule.mark_filled(LONG_DELAY, mark)
            assert schedule.is_intact()
            assert schedule.recently_filled()
            index = RedisTaskIndex(scripts, keys)
            assert [index.lock_scan(Rebuild, token, LONG_DELAY) for token in ("a", "a", "b")] == [True, True, False]
    finally:
        server.stop()
