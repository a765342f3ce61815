"""The schedule: the time of the sweeper's next pass over each task."""

from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

import pytest
from redis.crc import key_slot
from redis.exceptions import OutOfMemoryError

from roboco.domain.ids import SHARDS, SLOTS, shard_of
from roboco.domain.paths import NOTIFY_PREFIX, RESTART_PREFIX
from roboco.local.valkey import start_valkey
from roboco.ports.schedule import Schedule
from roboco.ports.task_index import Rebuild
from roboco.redis.client import connect
from roboco.redis.keys import Keys
from roboco.redis.schedule import RedisSchedule
from roboco.redis.scripts import Scripts
from roboco.redis.task_index import RedisTaskIndex
from tests.contract.redis.sweeper.due_names import claim_all, due_names
from tests.contract.redis.task_on_redis import TaskOnRedis
from tests.contract.redis.task_under_test import TaskUnderTest

LONG_DELAY = 3600.0


@pytest.fixture
def schedule(task: TaskUnderTest) -> Schedule:
    return task.schedule


def names_of_shard(shard: int, count: int) -> list[str]:
    """Return task ids of a shard."""
    return list(islice((name for name in map("task{}".format, range(9999)) if shard_of(name) == shard), count))


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
    due = [entry.name for entry in claim_all(schedule, 2000)]
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
