"""Lists of tasks: the options of a caller, and the iterator over all pages."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from roboco.client import task_list
from roboco.client.options import TaskFilterOptions
from roboco.client.task_list import iterate, task_filter
from roboco.domain.status import TaskStatus
from roboco.domain.task_entry import TaskEntry
from roboco.domain.task_filter import TaskFilter
from roboco.errors import UsageError
from roboco.ports.task_index import TaskPage
from tests.support.memory_ports.clock import ManualClock
from tests.support.memory_ports.server import MemoryServer
from tests.support.memory_ports.task_index import MemoryTaskIndex

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def entry(task_id: str, minute: float, status: TaskStatus = TaskStatus.USER_TURN) -> TaskEntry:
    """Return the entry of a task whose status has changed this number of minutes after noon."""
    at = NOON + timedelta(minutes=minute)
    return TaskEntry(task_id=task_id, team="desk", status=status, created_at=NOON, updated_at=at)


class ChangingIndex(MemoryTaskIndex):
    """An index in which something happens after each page."""

    def __init__(self, act: Callable[[int], None]) -> None:
        super().__init__(MemoryServer(), ManualClock())
        self._act = act
        self.reads = 0

    def page(self, wanted: TaskFilter, cursor: str = "", limit: int = 50) -> TaskPage:
        """Return a page. Then act."""
        page = super().page(wanted, cursor, limit)
        self.reads += 1
        self._act(self.reads)
        return page


def test_a_task_that_moves_to_the_front_meanwhile_is_yielded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_list, "_PAGE_SIZE", 2)

    def act(number: int) -> None:
        if number == 1:
            index.put([entry("t0", 9), entry("t4", 10)])
        if number == 4:
            index.put([entry("new", 11)])

    index = ChangingIndex(act)
    index.put([entry(f"t{minute}", minute) for minute in range(5)])
    assert [one.task_id for one in iterate(index, TaskFilter())] == ["t4", "t3", "t2", "t1", "t0", "new"]


def test_the_options_become_a_filter() -> None:
    assert task_filter(None, {}) == TaskFilter()
    options = TaskFilterOptions(status=TaskStatus.APPROVAL, tenant="acme", team="desk", since=NOON, text="x")
    assert task_filter(None, options) == TaskFilter(
        frozenset({TaskStatus.APPROVAL}), "acme", frozenset({"desk"}), NOON, None, "x"
    )
    assert task_filter(None, {"status": ["paused", TaskStatus.FAILED]}).statuses == {
        TaskStatus.PAUSED,
        TaskStatus.FAILED,
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (TaskFilterOptions(status="done"), "status 'done' is unknown"),
        (TaskFilterOptions(tenant="No Tenant"), "tenant 'No Tenant' is not allowed"),
        (TaskFilterOptions(since=NOON.replace(tzinfo=None)), "since 2026-01-31T12:00:00 has no time zone"),
        (TaskFilterOptions(until=NOON.replace(tzinfo=None)), "until 2026-01-31T12:00:00 has no time zone"),
    ],
)
def test_a_wrong_option_raises_a_usage_error(options: TaskFilterOptions, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        task_filter(None, options)
