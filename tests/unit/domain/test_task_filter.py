"""TaskFilter: names of statuses, times and conditions."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from roboco.domain.status import TaskStatus
from roboco.domain.task_entry import TaskEntry
from roboco.domain.task_filter import TaskFilter, parse_statuses, parse_time
from roboco.errors import UsageError

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
ENTRY = TaskEntry(
    task_id="acme:t", team="desk", title="Straße 7", status=TaskStatus.APPROVAL, created_at=NOON, updated_at=NOON
)


def test_statuses_and_groups_add_up() -> None:
    assert parse_statuses(["approval", "ended"]) == {
        TaskStatus.APPROVAL,
        TaskStatus.COMPLETED,
        TaskStatus.FAILED,
        TaskStatus.CANCELLED,
        TaskStatus.GOALS_FAILED,
    }
    assert parse_statuses(["open", "ended"]) == frozenset(TaskStatus)
    assert parse_statuses(["waiting"]) == {status for status in TaskStatus if status.waiting}


def test_a_time_is_a_duration_before_now_or_in_the_zone_of_now() -> None:
    ago = {
        "30s": timedelta(seconds=30),
        "30m": timedelta(minutes=30),
        "1d": timedelta(days=1),
        "4w": timedelta(weeks=4),
    }
    assert {text: NOON - parse_time(text, NOON) for text in ago} == ago
    now = NOON.astimezone(ZoneInfo("Europe/Berlin"))
    assert parse_time("2026-01-31T09:30", now) == datetime(2026, 1, 31, 8, 30, tzinfo=UTC)
    assert parse_time("2026-01-31T09:30Z", now) == datetime(2026, 1, 31, 9, 30, tzinfo=UTC)


@pytest.mark.parametrize("text", ["", "d", "-1d", "1d2h", "999999w"])
def test_another_time_is_refused(text: str) -> None:
    with pytest.raises(
        UsageError, match=r"write a (shorter duration|duration such as 30m, 2h or 1d, or a time such as)"
    ):
        parse_time(text, NOON)


@pytest.mark.parametrize(
    ("wanted", "matches"),
    [
        (TaskFilter(), True),
        (TaskFilter(statuses=frozenset({TaskStatus.PAUSED})), False),
        (TaskFilter(tenant=""), False),
        (TaskFilter(teams=frozenset({"des"})), False),
        (TaskFilter(since=NOON, until=NOON), True),
        (TaskFilter(since=NOON + timedelta(seconds=1)), False),
        (TaskFilter(until=NOON - timedelta(seconds=1)), False),
        (TaskFilter(text="STRASSE"), True),
        (TaskFilter(text="8"), False),
        (TaskFilter(what_if=False), True),
        (TaskFilter(what_if=True), False),
    ],
)
def test_an_entry_meets_all_conditions_or_does_not_match(wanted: TaskFilter, matches: bool) -> None:
    assert wanted.matches(ENTRY) is matches


@pytest.mark.parametrize("task_id", ["whatif-3f5a-1", "acme:whatif-3f5a-12", "whatif-3f5a-1.0a1b"])
def test_runs_of_what_if_and_their_sub_tasks_can_be_left_out_or_selected(task_id: str) -> None:
    run = ENTRY.model_copy(update={"task_id": task_id})
    assert [TaskFilter(what_if=wanted).matches(run) for wanted in (True, False, None)] == [True, False, True]
