"""The logs of both channels."""

import json
from typing import Any

from roboco.domain.stream.event import ErrorOccurred
from roboco.ports.logs import LogTrim
from tests.contract.redis.task_on_redis import TaskOnRedis
from tests.contract.redis.task_under_test import TaskUnderTest
from tests.contract.samples import NOON, TASK, status_event

REFUSED = ErrorOccurred(task_id=TASK, timestamp=NOON, code="usage", message="no such team")


def trim_of(
    task: TaskUnderTest, archived: int, keep_from: int, generation: str | None = None, first: int | None = None
) -> LogTrim:
    """Return a trim of the log as it is now."""
    now = task.snapshot
    first = now.logs.first_event if first is None else first
    removed = sum(len(message) for message in list(task.logs.events(TASK, 0))[: keep_from - first])
    return LogTrim(generation or now.logs.generation, first, archived, keep_from, removed)


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


def test_an_unlogged_event_is_published_and_not_logged(redis_task: TaskOnRedis) -> None:
    client: Any = redis_task.client
    with client.pubsub() as pubsub:
        pubsub.subscribe(redis_task.keys.events(TASK))
        assert pubsub.get_message(timeout=60) is not None
        redis_task.logs.publish_unlogged(TASK, REFUSED)
        message: Any = pubsub.get_message(timeout=60)
    assert json.loads(message["data"]) == REFUSED.model_dump(mode="json")
    assert redis_task.names() == []
