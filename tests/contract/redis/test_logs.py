"""The logs of both channels."""

import json
from typing import Any

import pytest

from roboco.adapters.redis import logs as redis_logs
from roboco.domain.stream.event import ErrorOccurred
from roboco.errors import TransientError
from tests.contract.redis.task_on_redis import TaskOnRedis
from tests.contract.redis.task_under_test import TaskUnderTest
from tests.contract.samples import NOON, TASK, status_event

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


def test_an_unlogged_event_is_published_and_not_logged(redis_task: TaskOnRedis) -> None:
    client: Any = redis_task.client
    with client.pubsub() as pubsub:
        pubsub.subscribe(redis_task.keys.events(TASK))
        assert pubsub.get_message(timeout=5) is not None
        redis_task.logs.publish_unlogged(TASK, REFUSED)
        message: Any = pubsub.get_message(timeout=5)
    assert json.loads(message["data"]) == REFUSED.model_dump(mode="json")
    assert redis_task.names() == []


def test_an_unreachable_redis_raises_a_transient_error(unreachable_task: TaskOnRedis) -> None:
    with pytest.raises(TransientError, match="redis does not answer"):
        list(unreachable_task.logs.events(TASK, 0))
    with pytest.raises(TransientError, match="redis does not answer"):
        unreachable_task.logs.publish_unlogged(TASK, REFUSED)
