"""Retention: ended tasks are removed as the rules say, page by page, by all coordinators."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from roboco.domain.paths import erasure_path, notify_marker_path, tombstone_path
from roboco.domain.removal.retention import due_rule, parse_rule
from roboco.domain.status import TaskStatus
from roboco.domain.task_summary import TaskSummary
from roboco.engine.operate import retention
from roboco.engine.operate.retention import SCAN_INTERVAL, enforce_retention
from roboco.errors import TransientError, UsageError
from roboco.ports.task_index import RetentionScan
from tests.support.memory_ports.clock import SkewedClock
from tests.support.memory_ports.journeys import GRAPH, MANUAL
from tests.support.memory_ports.world import POLICY, world_parts
from tests.unit.engine.removal.object_world import ObjectWorld

DAY = 86_400.0
DELETE = "status=completed delete=1d"
SECONDS = 10.0


def world_of(*rules: str, tasks: int = 1) -> ObjectWorld:
    """Return a world with these rules, and this number of ended tasks."""
    policy = replace(POLICY, retention_rules=tuple(map(parse_rule, rules)))
    world = ObjectWorld(world_parts(GRAPH.script, policy=policy))
    for number in range(tasks):
        world.submit(GRAPH.team, task_id=f"task{number}")
        world.settle(f"task{number}")
    return world


def finished(world: ObjectWorld, task_id: str) -> bool:
    return tombstone_path(task_id) in world.files.held and world.receipt(task_id).finished_at is not None


def test_a_task_is_removed_when_its_retention_has_ended() -> None:
    world = world_of(DELETE)
    assert enforce_retention(world.engine, SECONDS) == 0
    world.clock.move(DAY + SCAN_INTERVAL)
    assert enforce_retention(world.engine, SECONDS) == 1
    world.sweep_until(lambda: finished(world, "task0"))
    receipt = world.receipt("task0")
    assert (receipt.status, receipt.by, receipt.reason) == ("erased", "retention", DELETE)
    assert world.traces("task0") == []


def test_pages_are_spread_and_shared_by_coordinators(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "PAGE_SIZE", 2)
    world = world_of(DELETE, tasks=5)
    world.clock.move(DAY)
    assert enforce_retention(world.engine, SECONDS) == 2
    assert enforce_retention(world.process(), SECONDS) == 0, "the next page waits"
    world.clock.move(SECONDS + 1)
    assert enforce_retention(world.process(), SECONDS) == 2
    world.clock.move(SECONDS + 1)
    assert enforce_retention(world.process(), SECONDS) == 1
    scan = world.engine.tasks.task_index.load_scan(RetentionScan)
    assert scan is not None
    assert (scan.tasks_read, scan.due) == (5, 5)


@pytest.mark.parametrize("page_size", [1, 200])
def test_a_poison_task_does_not_stop_the_scan(page_size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "PAGE_SIZE", page_size)
    monkeypatch.setattr(retention, "REMOVALS_PER_SECOND", 1e9)
    world = world_of(DELETE, tasks=3)
    world.clock.move(DAY)

    def refuse_one(name: str, call: Any) -> Any:
        if name.startswith("files.") and call.args and call.args[0] == erasure_path("task1"):
            raise TransientError("this key is not answered")
        return call()

    world.watch = refuse_one
    assert enforce_retention(world.engine, SECONDS) == 2
    scan = world.engine.tasks.task_index.load_scan(RetentionScan)
    assert scan is not None
    assert scan.finished is not None


def test_a_task_with_pending_notifications_stays() -> None:
    world = world_of(DELETE, tasks=2)
    world.clock.move(DAY)
    world.files.held[notify_marker_path("task0")] = b""
    assert enforce_retention(world.engine, SECONDS) == 1
    assert erasure_path("task0") not in world.files.held


@pytest.mark.parametrize("skew", [400 * DAY, -DAY])
def test_a_coordinator_with_a_wrong_clock_removes_nothing(skew: float) -> None:
    world = world_of(DELETE)
    wrong = replace(world.process(), clock=SkewedClock(world.clock, skew))
    for _ in range(2):
        with pytest.raises(TransientError, match="the clock of this machine is"):
            enforce_retention(wrong, SECONDS)
        assert erasure_path("task0") not in world.files.held
        world.clock.move(DAY)
    with pytest.raises(TransientError, match="the clock of this machine is"):
        enforce_retention(wrong, SECONDS)
    assert enforce_retention(world.engine, SECONDS) == 1, "the other coordinator does not wait for its lock"


def test_an_open_task_is_never_due() -> None:
    policy = replace(POLICY, retention_rules=(parse_rule("delete=0h"),))
    world = ObjectWorld(world_parts(MANUAL.script, policy=policy))
    world.submit(MANUAL.team)
    world.settle()
    world.clock.move(DAY)
    assert enforce_retention(world.engine, SECONDS) == 0
    assert erasure_path("task_1") not in world.files.held


def summary_of(**fields: object) -> TaskSummary:
    known = {"task_id": "acme:t", "team": "desk", "status": "failed"}
    times = {"created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z"}
    return TaskSummary.model_validate(known | times | fields)


@pytest.mark.parametrize(
    ("rules", "task", "days", "due"),
    [
        (["delete=30d"], {}, 29, None),
        (["delete=30d"], {}, 30, 0),
        (["delete=1w"], {}, 7, 0),
        (["tenant=acme keep", "delete=1d"], {}, 99, None),
        (["tenant=other keep", "delete=1d"], {}, 99, 1),
        (["tenant= delete=1d"], {}, 99, None),
        (["tenant= delete=1d"], {"task_id": "t"}, 99, 0),
        (["team=desk status=failed|cancelled delete=1d"], {}, 99, 0),
        (["team=desk status=completed delete=1d"], {}, 99, None),
        (["delete=0h"], {"status": TaskStatus.RUNNING}, 99, None),
    ],
)
def test_the_first_rule_that_covers_a_task_counts(
    rules: list[str], task: dict[str, object], days: int, due: int | None
) -> None:
    summary = summary_of(**task)
    parsed = [parse_rule(rule) for rule in rules]
    found = due_rule(parsed, summary, summary.updated_at + timedelta(days=days))
    assert found == (None if due is None else parsed[due])


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("", "0 actions"),
        ("delete=1d keep", "2 actions"),
        ("delete=30", "age '30' cannot be read"),
        ("delete=6m", "age '6m' cannot be read"),
        ("delete", "age '' cannot be read"),
        ("tennant=acme delete=1d", "'tennant' is unknown"),
        ("tenant=acme tenant=x delete=1d", "given twice"),
        ("tenant=Acme delete=1d", "tenant 'Acme' is not allowed"),
        ("status=running delete=1d", "status 'running' is not one of an ended task"),
        ("archive=1d", "'archive' is unknown"),
        ("keep=1d", "keep has no value"),
        ("team= delete=1d", "names no team"),
    ],
)
def test_a_wrong_rule_names_its_mistake(text: str, mistake: str) -> None:
    with pytest.raises(UsageError, match=mistake):
        parse_rule(text)
