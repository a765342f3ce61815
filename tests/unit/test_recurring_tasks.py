"""The example of recurring tasks in `roboco/docs/submitting.md`: one task a day, also when the clocks change."""

import sys
from datetime import UTC, datetime, timedelta
from types import ModuleType
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from celery import Celery
from celery.beat import PersistentScheduler
from celery.schedules import crontab

from roboco.domain.ids import check_task_id
from tests.support.documents import example

OSLO = ZoneInfo("Europe/Oslo")
TICK = timedelta(minutes=10)


class Clock(datetime):
    """The time of both beats, which a test sets."""

    at = datetime(2026, 1, 1, tzinfo=UTC)

    @classmethod
    def now(cls, tz: Any = None) -> Any:
        return cls.at.astimezone(tz)


@pytest.fixture
def schedule(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the module of the example, with the time of a test."""
    shop, made = ModuleType("shop"), ModuleType("schedule")
    vars(shop)["app"] = Celery("shop", set_as_current=False)
    monkeypatch.setitem(sys.modules, "shop", shop)
    monkeypatch.setitem(sys.modules, "schedule", made)
    exec(example("file", "schedule.py"), vars(made))
    vars(made)["datetime"] = Clock
    return made


def sent_by_beat(schedule: ModuleType, monkeypatch: pytest.MonkeyPatch, entry: str) -> dict[str, Any]:
    """Return the arguments of the message that a beat sends for the entry now."""
    sent: list[dict[str, Any]] = []
    scheduler: Any = PersistentScheduler(app=schedule.app, lazy=True, schedule_filename="")
    monkeypatch.setattr(scheduler, "send_task", lambda name, args, kwargs, **options: sent.append(kwargs))
    found = scheduler.Entry(**schedule.app.conf.beat_schedule[entry], name=entry, app=schedule.app)
    scheduler.apply_async(found, advance=False)
    return sent[0]


def due_times(cron: Any, first: datetime, days: int) -> list[datetime]:
    """Return the times at which a beat sends an entry with this schedule in these days."""
    now, last, found = first.astimezone(UTC), first, []
    cron.nowfun = lambda: now.astimezone(OSLO)
    while now < first.astimezone(UTC) + timedelta(days=days):
        if cron.is_due(last)[0]:
            last = now.astimezone(OSLO)
            found.append(now)
        now += TICK
    return found


@pytest.mark.parametrize("first", [datetime(2026, 3, 27, 12, tzinfo=OSLO), datetime(2026, 10, 23, 12, tzinfo=OSLO)])
@pytest.mark.parametrize("hour", ["1-3", "2"])
def test_the_messages_of_a_day_name_one_task_when_the_clocks_change(
    schedule: ModuleType, monkeypatch: pytest.MonkeyPatch, first: datetime, hour: str
) -> None:
    ids = []
    for at in due_times(crontab(hour=hour, minute=0 if hour != "2" else 30, app=schedule.app), first, days=3):
        Clock.at = at
        beats = [sent_by_beat(schedule, monkeypatch, "news") for _ in range(2)]
        assert beats[0] == beats[1], "two beats of a rolling update send the same submission"
        ids.append(check_task_id(beats[0]["task_id"]))
    days = [first.date() + timedelta(days=number) for number in range(4)]
    assert list(dict.fromkeys(ids)) == [f"news-{day}" for day in days if f"news-{day}" in ids]
    assert {f"news-{day}" for day in days[1:3]} <= set(ids), "no day is left out"


def test_a_persistent_beat_can_store_the_entries(schedule: ModuleType, tmp_path: Any) -> None:
    for _ in range(2):
        scheduler: Any = PersistentScheduler(app=schedule.app, schedule_filename=str(tmp_path / "beat"))
        assert scheduler.schedule["news"].kwargs["task_id"]() == schedule.id_of_day("news")
        scheduler.close()
