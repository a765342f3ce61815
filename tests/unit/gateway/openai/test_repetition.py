"""Repetition: a request that says that it is repeated finds the task of its first attempt, however long that took."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from roboco.client.orchestrator import Orchestrator
from roboco.domain.status import TaskStatus
from roboco.gateway.openai.repetition import Repetition
from roboco.gateway.principal import LOCAL

REQUEST = Repetition(LOCAL, "d" * 64, key=None, attempts=1, timeout=600.0)


@dataclass(frozen=True)
class Entry:
    """An entry of the task index."""

    task_id: str
    created_at: datetime
    status: TaskStatus = TaskStatus.RUNNING


@dataclass(frozen=True)
class Index:
    """A task index of one task, which has just changed."""

    entry: Entry

    def tasks(self, **filters: Any) -> Iterator[Entry]:
        """Yield the task."""
        yield self.entry


def find(request: Repetition, age: float, immediate: bool = False) -> bool:
    """Return True if the request finds the task that it has created at this age, in seconds."""
    entry = Entry(request.new_task_id(), datetime.now(UTC) - timedelta(seconds=age))
    found = request.find_task(cast(Orchestrator, Index(entry)), immediate)
    assert found in (None, entry.task_id)
    return found is not None


@pytest.mark.parametrize(("attempts", "age"), [(1, 605), (2, 1215), (2, 605), (5, 3030)])
def test_an_attempt_after_several_timeouts_finds_the_task(attempts: int, age: float) -> None:
    assert find(replace(REQUEST, attempts=attempts), age)


@pytest.mark.parametrize(("attempts", "age"), [(0, 1), (1, 1500), (2, 3000), (10**9, 10**6)])
def test_a_task_of_another_request_is_not_found(attempts: int, age: float) -> None:
    assert not find(replace(REQUEST, attempts=attempts), age)


def test_an_answer_that_begins_at_once_is_repeated_soon() -> None:
    assert find(REQUEST, 100, immediate=True)
    assert not find(REQUEST, 400, immediate=True)
    assert not find(replace(REQUEST, key="k"), 1)
