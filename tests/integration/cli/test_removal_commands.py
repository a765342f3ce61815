"""Erasure, retention and export as an operator types them, beside real workers."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from roboco import UsageError
from roboco.errors import Erased
from tests.integration.cli.shell import LINE, Desk, Shell, desk_reply
from tests.support.journeys import answer
from tests.support.stack import Stack

pytestmark = [pytest.mark.workers, pytest.mark.redis]


@pytest.fixture
def desk(shared_stack: Stack, tmp_path: Path) -> Iterator[Desk]:
    shared_stack.model.script(desk_reply)
    yield Desk(shared_stack, tmp_path)
    shared_stack.model.script(answer)


def ended_task(desk: Desk, task_id: str) -> str:
    """Run a task to its end, and return its id."""
    desk.run("a secret", LINE, task_id=task_id).result(60).raise_for_status()
    return task_id


def test_a_task_is_erased_once_and_its_receipt_is_shown(desk: Desk) -> None:
    task_id = ended_task(desk, "person-17")
    with pytest.raises(AssertionError, match="--yes"):
        desk.call("erase", task_id)
    assert desk.call("show", task_id)
    output = desk.call("erase", task_id, "--reason", "request 17", "--yes", "--timeout", "60")
    assert "status           erased" in output
    assert "reason           request 17" in output
    assert "secret" not in output
    receipt = desk.call("erase", "--receipt", task_id)
    file = "Redis' append-only file"
    assert output == f"{receipt}{file} holds erased texts until its next rewrite, which --rewrite starts\n"
    again = desk.call("erase", task_id, "--yes", "--rewrite")
    assert again == f"{receipt}{file} is being rewritten\n", "the same request again returns the receipt"
    assert json.loads(desk.call("erase", "--receipt", task_id, "--json"))["files"] > 3
    with pytest.raises(AssertionError, match="was erased at"):
        desk.call("show", task_id)
    with pytest.raises(Erased):
        desk.run("another secret", LINE, task_id=task_id)


def test_an_open_task_is_erased_only_with_stop(desk: Desk) -> None:
    task = desk.run("for ever")
    with pytest.raises(AssertionError, match="has not ended"):
        desk.call("erase", task.task_id, "--yes")
    assert "status           erased" in desk.call("erase", task.task_id, "--stop", "--yes", "--timeout", "60")
    with pytest.raises(UsageError):
        task.summary()


def test_tasks_are_erased_by_conditions_after_a_preview(desk: Desk) -> None:
    ids = [ended_task(desk, f"left:t{number}") for number in range(3)]
    kept = ended_task(desk, "stays:t1")
    waiting = desk.run("hello", task_id="left:waiting")
    waiting.result(60)
    preview = desk.call("erase", "--tenant", "left", "--dry-run")
    assert preview.splitlines() == [*(f"{task_id} matched" for task_id in ids), "3 tasks meet the conditions"]
    assert all(desk.call("show", task_id) for task_id in ids)
    assert desk.call("erase", "--tenant", "left", "--older", "2d", "--yes") == "0 tasks meet the conditions\n"
    output = desk.call("erase", "--tenant", "left", "--stop", "--rate", "100", "--yes")
    assert "4 tasks are being erased by the coordinators, 0 are refused" in output
    for task_id in (*ids, "left:waiting"):
        assert task_id in desk.call("erase", task_id, "--stop", "--yes", "--timeout", "60")
    assert desk.call("show", kept)
    assert desk.call("erase", "--tenant", "left", "--stop", "--yes") == "0 tasks meet the conditions\n"
    lines = desk.call("erase", "--tenant", "stays", "--dry-run", "--json").splitlines()
    assert json.loads(lines[0]) == {"task_id": kept, "outcome": "matched", "cause": ""}


def test_the_rules_of_the_retention_are_shown_with_their_tasks(desk: Desk) -> None:
    task_id = ended_task(desk, "old:t1")
    rules = {"ROBOCO_RETENTION_RULES": "tenant=old delete=0h, keep"}
    shell = Shell(desk.folder, desk.stack.settings.environment() | rules)
    assert desk.call("retention").startswith("no rules: every task is kept")
    assert shell.call("retention") == "1. tenant=old delete=0h\n2. keep\n"
    output = shell.call("retention", "--dry-run")
    assert f"{task_id} tenant=old delete=0h" in output
    assert "1 by rule tenant=old delete=0h" in output
    assert desk.call("show", task_id)


def test_an_exported_task_is_unpacked_in_another_workspace(desk: Desk) -> None:
    task_id, file = ended_task(desk, "moves"), desk.folder / "moves.tar"
    assert desk.call("export", task_id, str(file)).startswith(f"{task_id} is in {file} (")
    assert file.stat().st_mode & 0o077 == 0
    with pytest.raises(AssertionError, match="exists; name another file"):
        desk.call("export", task_id, str(file))
    other = desk.stack.settings.model_copy(update={"workspace": (desk.folder / "other").as_uri(), "prefix": "other"})
    elsewhere = Shell(desk.folder, other.environment())
    folder = desk.folder / "other" / task_id
    folder.mkdir(parents=True)
    subprocess.run(["tar", "-xf", file, "-C", folder, "--strip-components=1", "files"], check=True)
    assert "a secret" in elsewhere.call("show", task_id)
    assert "4 steps" in elsewhere.call("verify", task_id)
