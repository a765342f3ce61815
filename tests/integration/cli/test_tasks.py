"""roboco tasks: conditions, pages, and the workspace in place of a silent Redis."""

import json
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from roboco.cli.main import commands
from roboco.domain.status import TaskStatus
from roboco.domain.task_entry import TaskEntry
from roboco.domain.task_summary import TaskSummary
from roboco.local.valkey import ValkeyServer
from roboco.ports.task_index import Rebuild
from roboco.redis.client import connect
from roboco.redis.keys import Keys
from roboco.redis.scripts import Scripts
from roboco.redis.task_index import RedisTaskIndex


def call(*arguments: str) -> Result:
    """Run the command."""
    return CliRunner().invoke(commands, ["tasks", *arguments], standalone_mode=False)


def ids_of(*arguments: str) -> list[str]:
    """Return the ids that the command lists."""
    return [entry["task_id"] for entry in json.loads(call("--json", *arguments).stdout)["tasks"]]


def entry(task_id: str, age: timedelta, status: TaskStatus, team: str = "desk", title: str = "") -> TaskEntry:
    """Return the entry of a task whose status has changed that long ago."""
    at = datetime.now(UTC) - age
    return TaskEntry(task_id=task_id, team=team, title=title, status=status, created_at=at, updated_at=at)


@pytest.fixture
def indexed(valkey: ValkeyServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fill an index with four tasks. It is not complete yet."""
    prefix = f"test-{uuid.uuid4().hex[:16]}"
    monkeypatch.setenv("ROBOCO_REDIS_URL", valkey.url)
    monkeypatch.setenv("ROBOCO_PREFIX", prefix)
    monkeypatch.setenv("ROBOCO_WORKSPACE", tmp_path.as_uri())
    with connect(valkey.url) as client:
        scripts, keys = Scripts(client), Keys(prefix)
        RedisTaskIndex(scripts, keys).put(
            [
                entry("acme:a", timedelta(hours=1), TaskStatus.APPROVAL, title="Check the Invoice"),
                entry("acme:b", timedelta(hours=3), TaskStatus.COMPLETED, title="invoice 7"),
                entry("c", timedelta(days=2), TaskStatus.APPROVAL, "research"),
                entry("d", timedelta(days=3), TaskStatus.PAUSED),
            ]
        )
        RedisTaskIndex(scripts, keys).save_scan(None, Rebuild("r", "i", "d", tasks_read=4))
        yield


@pytest.mark.redis
@pytest.mark.usefixtures("indexed")
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("", ["acme:a", "acme:b", "c", "d"]),
        ("--status paused --status ended", ["acme:b", "d"]),
        ("--status waiting --tenant acme", ["acme:a"]),
        ("--since 60h --until 2h", ["acme:b", "c"]),
        ("--team research", ["c"]),
        ("--text INVOICE", ["acme:a", "acme:b"]),
    ],
)
def test_conditions_select_tasks(arguments: str, expected: list[str]) -> None:
    assert ids_of(*arguments.split()) == expected


@pytest.mark.redis
@pytest.mark.usefixtures("indexed")
def test_an_incomplete_index_is_reported() -> None:
    listed = call("--json")
    assert json.loads(listed.stdout)["complete"] is False
    assert "tasks may be missing" in listed.stderr
    assert "4 tasks are read so far" in listed.stderr


def test_without_redis_the_conditions_hold_for_the_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROBOCO_REDIS_URL", "redis://127.0.0.1:1/0")
    monkeypatch.setenv("ROBOCO_WORKSPACE", tmp_path.as_uri())
    now = datetime.now(UTC)
    for number, status in enumerate(TaskStatus):
        at = now - timedelta(hours=number)
        summary = TaskSummary(
            task_id=status, team="desk", title=f"T {number}", status=status, created_at=at, updated_at=at
        )
        (tmp_path / status).mkdir()
        (tmp_path / status / "task.json").write_text(summary.model_dump_json())
    listed = call("--json", "--status", "open", "--limit", "2")
    assert [one["task_id"] for one in json.loads(listed.stdout)["tasks"]] == ["queued", "running"]
    assert "tasks are shown as the workspace has them" in listed.stderr
    assert "redis does not answer" in str(call("--cursor", "0000000000001-a").exception)
