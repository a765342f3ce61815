"""The task index: the newest entry of each task, in pages by filter."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from roboco.domain.status import TaskStatus
from roboco.domain.task_entry import TaskEntry
from roboco.domain.task_filter import TaskFilter
from roboco.errors import TransientError, UsageError
from roboco.local.valkey import ValkeyServer
from roboco.ports.task_index import Rebuild
from roboco.redis import task_index
from roboco.redis.keys import Keys
from roboco.redis.scripts import Scripts
from roboco.redis.task_index import RedisTaskIndex
from tests.contract.redis.double_sending import DoubleSendingRedis
from tests.contract.redis.task_indexes import (
    INDEX_KINDS,
    NOON,
    Indexes,
    entries_of,
    entry,
    ids_of,
    index_in_memory,
    index_on_redis,
)
from tests.contract.redis.task_on_redis import TaskOnRedis

ALL = TaskFilter()
RUNNING, WAITS, ENDED = TaskStatus.RUNNING, TaskStatus.USER_TURN, TaskStatus.COMPLETED


@pytest.fixture(params=INDEX_KINDS)
def indexes(request: pytest.FixtureRequest, prefix: str) -> Iterator[Indexes]:
    """Yield an empty index."""
    if request.param == "memory":
        yield index_in_memory()
    elif request.param == "redis":
        yield index_on_redis(request.getfixturevalue("client"), prefix)
    elif request.param == "cluster":
        yield index_on_redis(request.getfixturevalue("cluster_client"), prefix)
    else:
        server: ValkeyServer = request.getfixturevalue("valkey")
        with DoubleSendingRedis.from_url(server.url, decode_responses=True) as client:
            yield index_on_redis(client, prefix)


def test_an_end_is_final_whatever_its_epoch(indexes: Indexes) -> None:
    indexes.index.put([entry("a", 1, RUNNING, epoch=9)])
    indexes.index.put([entry("a", 2, ENDED, epoch=0)])
    indexes.index.put([entry("a", 3, RUNNING, epoch=10)])
    assert indexes.index.page(ALL).entries == (entry("a", 2, ENDED, epoch=0),)


def test_a_task_that_begins_to_ask_while_it_runs_moves_to_the_front_and_keeps_its_time(indexes: Indexes) -> None:
    indexes.index.put([entry("a", 1, epoch=1), entry("b", 2)])
    for minute in (3, 4):
        indexes.index.put([entry("a", minute, epoch=1, waits=True, reason="a person")])
    asks = entry("a", 3, epoch=1, waits=True, reason="a person")
    assert indexes.index.page(TaskFilter(statuses=frozenset({RUNNING}))).entries == (asks, entry("b", 2))
    indexes.index.put([entry("a", 5, epoch=2)])
    assert indexes.index.page(ALL).entries == (entry("a", 5, epoch=2), entry("b", 2))


def test_old_ends_are_removed_in_small_steps(indexes: Indexes) -> None:
    indexes.index.put([entry(f"acme:{number}", number, ENDED) for number in range(5)])
    indexes.index.put([entry("open", -1), entry("failed", -1, TaskStatus.FAILED)])
    at = NOON + timedelta(minutes=2)
    assert ids_of(indexes.index, ALL) == ["acme:4", "acme:3", "acme:2", "acme:1", "acme:0", "open", "failed"]
    indexes.index.trim(at, 100, 1)
    assert "failed" not in ids_of(indexes.index, ALL)
    for _ in range(2):
        indexes.index.trim(at, 100, 10)
    assert ids_of(indexes.index, ALL) == ["acme:4", "acme:3", "acme:2", "open"]
    indexes.index.trim(NOON, 1, 10)
    assert ids_of(indexes.index, ALL) == ["acme:4", "open"]
    assert ids_of(indexes.index, TaskFilter(tenant="acme")) == ["acme:4"]


def test_a_wrong_cursor_raises_a_usage_error(indexes: Indexes) -> None:
    with pytest.raises(UsageError, match="'nonsense' is not one of a page of tasks"):
        indexes.index.page(ALL, "nonsense")


def test_a_page_says_that_the_index_is_incomplete(indexes: Indexes) -> None:
    begun = Rebuild("r1", "instance")
    read = replace(begun, after="b", tasks_read=2)
    assert not indexes.index.page(ALL).complete
    assert indexes.index.load_scan(Rebuild) is None
    assert indexes.index.save_scan(None, begun)
    assert indexes.index.save_scan(begun, read)
    assert indexes.index.load_scan(Rebuild) == read
    page = indexes.index.page(ALL)
    assert (page.complete, page.tasks_read) == (False, 2)
    listed = replace(read, all_listed=True, left_out=("a", "acme:b"))
    assert indexes.index.save_scan(read, listed)
    assert not indexes.index.page(ALL).complete
    assert indexes.index.load_scan(Rebuild) == listed
    assert indexes.index.save_scan(listed, replace(listed, left_out=()))
    assert indexes.index.page(ALL).complete


STATUSES = st.sampled_from([TaskStatus.QUEUED, RUNNING, WAITS, TaskStatus.APPROVAL, ENDED, TaskStatus.FAILED])
TASK_IDS = st.sampled_from(["a", "b", "c", "acme:a", "acme:b", "acme-2:a", "z:a"])
ENTRIES = st.builds(
    lambda task_id, minute, status, team, title, epoch: entry(
        task_id, minute, status, team=team, title=title, epoch=epoch
    ),
    TASK_IDS,
    st.integers(0, 4),
    STATUSES,
    st.sampled_from(["desk", "research"]),
    st.sampled_from(["", "Invoice 7", "INVOICE", "Straße"]),
    st.integers(0, 5),
)
TIMES = st.none() | st.integers(0, 4).map(lambda minute: NOON + timedelta(minutes=minute))
FILTERS = st.builds(
    TaskFilter,
    st.frozensets(STATUSES, min_size=1),
    st.sampled_from([None, None, "", "acme", "z"]),
    st.sampled_from([None, None, "desk", "none"]),
    TIMES,
    TIMES,
    st.sampled_from(["", "", "invoice", "STRASSE"]),
)


@pytest.mark.redis
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(ENTRIES, min_size=1, max_size=6), max_size=6), FILTERS, st.integers(1, 4))
def test_all_pages_are_the_filtered_entries(
    client: redis.Redis, prefix: str, batches: list[list[TaskEntry]], wanted: TaskFilter, limit: int
) -> None:
    """The pages of any filter are those of the memory twin, and hold the entries that the filter matches."""
    for key in client.scan_iter(f"{prefix}:*", count=1000):
        client.delete(key)
    on_redis, in_memory = index_on_redis(client, prefix).index, index_in_memory().index
    for batch in batches:
        on_redis.put(batch)
        in_memory.put(batch)
    everything = list(entries_of(in_memory, ALL))
    assert list(entries_of(on_redis, ALL, limit)) == everything
    assert list(entries_of(on_redis, wanted, limit)) == [one for one in everything if wanted.matches(one)]
    assert sorted({one.task_id for batch in batches for one in batch}) == sorted(one.task_id for one in everything)


@pytest.mark.redis
def test_a_condition_on_the_title_is_checked_on_a_bounded_number_of_entries(
    client: redis.Redis, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_index, "MAX_SCANNED", 20)
    monkeypatch.setattr(task_index, "SCAN_SIZE", 10)
    index = index_on_redis(client, prefix).index
    index.put([entry(f"t{number:02d}", number, title="wanted" if number == 5 else "") for number in range(45)])
    wanted = TaskFilter(text="WANTED")
    page = index.page(wanted)
    assert (page.entries, bool(page.cursor)) == ((), True)
    assert ids_of(index, wanted) == ["t05"]


@pytest.mark.redis
def test_a_page_says_up_to_which_change_ended_tasks_were_removed(indexes: Indexes) -> None:
    index = indexes.index
    index.put([entry(f"t{number}", number, ENDED) for number in range(4)])
    index.put([entry("open", 9, WAITS)])
    assert index.page(ALL).trimmed_until is None
    assert index.trim(NOON, 2, 100) == 2
    assert index.page(ALL).trimmed_until == NOON + timedelta(minutes=1)
    index.put([entry("late", 0.5, ENDED)])
    assert index.trim(NOON, 2, 100) == 1
    assert index.page(ALL).trimmed_until == NOON + timedelta(minutes=1)


@pytest.mark.redis
def test_a_client_of_a_tenant_reads_and_writes_its_tenant_only(client: redis.Redis, prefix: str) -> None:
    scripts, keys = Scripts(client), Keys(prefix)
    every, acme = RedisTaskIndex(scripts, keys), RedisTaskIndex(scripts, keys, "acme")
    acme.put([entry("acme:a", 1, TaskStatus.QUEUED)])
    assert (ids_of(every, ALL), ids_of(acme, ALL)) == ([], ["acme:a"])
    every.put([entry("acme:a", 2, RUNNING, epoch=1), entry("other:b", 3)])
    acme.put([entry("acme:a", 4, WAITS, epoch=2)])
    assert (ids_of(every, ALL), ids_of(acme, ALL)) == (["other:b", "acme:a"], ["acme:a"])
    assert ids_of(every, TaskFilter(frozenset({RUNNING}))) == ["other:b", "acme:a"]


@pytest.mark.redis
def test_an_entry_that_cannot_be_read_is_left_out_and_replaced(client: redis.Redis, prefix: str) -> None:
    index, keys = index_on_redis(client, prefix).index, Keys(prefix)
    index.put([entry("a", 1), entry("b", 2)])
    client.hset(keys.index_entries(""), "a", "nonsense")
    client.hset(keys.index_entries(""), "b", "1 2 3")
    assert ids_of(index, ALL) == []
    index.put([entry("a", 1), entry("b", 2)])
    assert ids_of(index, ALL) == ["b", "a"]


def test_an_unreachable_redis_raises_a_transient_error_and_is_left_alone_for_a_while(
    unreachable_task: TaskOnRedis,
) -> None:
    scripts = Scripts(unreachable_task.client)
    index = RedisTaskIndex(scripts, unreachable_task.keys)
    for use in (lambda: index.page(ALL), lambda: index.put([entry("a")]), lambda: index.remove("a")):
        with pytest.raises(TransientError, match="redis does not answer"):
            use()
    with pytest.raises(TransientError, match="did not answer lately"):
        index.put([entry("a")])
