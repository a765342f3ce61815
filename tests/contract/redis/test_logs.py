"""The logs of both channels."""

import json
from dataclasses import replace
from typing import Any

import pytest

from roboco.domain.stream.event import ErrorOccurred
from roboco.errors import TransientError
from roboco.ports.logs import LogTrim
from roboco.ports.task_store import Phase
from roboco.redis import logs as redis_logs
from tests.contract.redis.chunk_emission import emit_chunk
from tests.contract.redis.task_on_redis import TaskOnRedis
from tests.contract.redis.task_under_test import TaskUnderTest
from tests.contract.samples import NOON, TASK, USAGE, status_event, text_chunk

REFUSED = ErrorOccurred(task_id=TASK, timestamp=NOON, code="usage", message="no such team")


def test_events_are_read_after_a_number(task: TaskUnderTest) -> None:
    assert list(task.logs.events(TASK, 0)) == []
    task.create(1, *[status_event(str(number)) for number in range(1, 8)])
    for after in range(9):
        numbers = [json.loads(message)["seq"] for message in task.logs.events(TASK, after)]
        assert numbers == list(range(after + 1, 8))


@pytest.mark.parametrize("count", [6, 7])
def test_a_log_is_read_in_pages(redis_task: TaskOnRedis, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """The log grows while it is read."""
    monkeypatch.setattr(redis_logs, "PAGE_SIZE", 3)
    redis_task.create(1, *[status_event(str(number)) for number in range(count)])
    reading = redis_task.logs.events(TASK, 0)
    found = [next(reading)]
    redis_task.record_decision()
    redis_task.commit(status_event("meanwhile"))
    found += reading
    assert [json.loads(message)["seq"] for message in found][:count] == list(range(1, count + 1))
    assert len(found) in (count, count + 1)


def trim_of(
    task: TaskUnderTest, archived: int, keep_from: int, generation: str | None = None, first: int | None = None
) -> LogTrim:
    """Return a trim of the log as it is now."""
    now = task.snapshot
    first = now.logs.first_event if first is None else first
    removed = sum(len(message) for message in list(task.logs.events(TASK, 0))[: keep_from - first])
    return LogTrim(generation or now.logs.generation, first, archived, keep_from, removed)


def test_a_trim_removes_archived_events(task: TaskUnderTest) -> None:
    task.create(1, *[status_event(str(number)) for number in range(1, 8)])
    trim = trim_of(task, 5, 4)
    assert task.logs.trim(TASK, trim)
    assert task.logs.trim(TASK, trim)
    assert [seq for seq, _, _ in task.event_log()] == [4, 5, 6, 7]
    assert list(task.logs.events(TASK, 0)) == list(task.logs.events(TASK, 3))
    now = task.snapshot
    assert (now.logs.events, now.logs.first_event, now.logs.archived_event) == (7, 4, 5)
    assert now.logs.event_bytes == sum(map(len, task.logs.events(TASK, 0)))
    task.record_decision(Phase.TURN, status_event("8"))
    assert task.logs.trim(TASK, trim_of(task, 8, 8))
    assert task.event_log() == [(8, 0, "8")]
    assert task.snapshot.logs.event_bytes == sum(map(len, task.logs.events(TASK, 0)))


def test_a_trim_that_is_late_or_removes_too_much_changes_nothing(task: TaskUnderTest) -> None:
    assert not task.logs.trim(TASK, LogTrim("0", 1, 1, 1, 0))
    task.create(1, *[status_event(str(number)) for number in range(1, 8)])
    late = trim_of(task, 2, 2)
    assert task.logs.trim(TASK, trim_of(task, 5, 4))
    for trim in (
        late,
        trim_of(task, 4, 4),  # fewer events are archived than before
        trim_of(task, 8, 4),  # an event that does not exist
        trim_of(task, 5, 7),  # events that are not archived
        trim_of(task, 7, 8),  # the last event
        trim_of(task, 6, 5, generation="0"),
        trim_of(task, 6, 5, first=1),
    ):
        assert not task.logs.trim(TASK, trim), trim
    assert [seq for seq, _, _ in task.event_log()] == [4, 5, 6, 7]


def test_a_trim_removes_old_chunks(task: TaskUnderTest) -> None:
    task.create(1, status_event("a"))
    task.record_decision()
    claim = task.claim()
    for number in range(1, 6):
        emit_chunk(task.leases, claim, number, text_chunk(str(number)), USAGE)
    assert task.logs.trim(TASK, replace(trim_of(task, 0, 1), chunks_from=4))
    assert [seq for seq, _, _ in task.chunk_log()] == [4, 5]
    assert task.logs.trim(TASK, replace(trim_of(task, 0, 1), chunks_from=9))
    assert task.chunk_log() == []
    emit_chunk(task.leases, claim, 6, text_chunk("6"), USAGE)
    assert task.chunk_log() == [(6, 1, "6")]


def test_new_logs_are_not_trimmed(task: TaskUnderTest) -> None:
    task.create(1, *[status_event(str(number)) for number in range(1, 8)])
    task.logs.trim(TASK, trim_of(task, 5, 4))
    assert task.store.reset_logs(TASK, task.snapshot.position.epoch, [status_event("a"), status_event("b")])
    now = task.snapshot
    assert (now.logs.events, now.logs.first_event, now.logs.archived_event) == (2, 1, 0)
    assert now.logs.event_bytes == sum(map(len, task.logs.events(TASK, 0)))


def test_an_unlogged_event_is_published_and_not_logged(redis_task: TaskOnRedis) -> None:
    client: Any = redis_task.client
    with client.pubsub() as pubsub:
        pubsub.subscribe(redis_task.keys.events(TASK))
        assert pubsub.get_message(timeout=60) is not None
        redis_task.logs.publish_unlogged(TASK, REFUSED)
        message: Any = pubsub.get_message(timeout=60)
    assert json.loads(message["data"]) == REFUSED.model_dump(mode="json")
    assert redis_task.names() == []


def test_an_unreachable_redis_raises_a_transient_error(unreachable_task: TaskOnRedis) -> None:
    with pytest.raises(TransientError, match="redis does not answer"):
        list(unreachable_task.logs.events(TASK, 0))
    with pytest.raises(TransientError, match="redis does not answer"):
        unreachable_task.logs.publish_unlogged(TASK, REFUSED)
