"""`roboco why`, `replay` and `export-test` with the history of a task that real workers ran."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import yaml
from click.testing import CliRunner

from roboco.cli.commands.why import why
from roboco.domain.stream.item import TextPartDelta
from roboco.lab.replay.command import replay_task
from roboco.lab.replay.export_test import export_test
from tests.integration.cli.shell import DESK, Desk, desk_reply
from tests.support.journeys import answer
from tests.support.stack import ROOT, Stack, until

pytestmark = [pytest.mark.workers, pytest.mark.redis]


@pytest.fixture
def desk(shared_stack: Stack, tmp_path: Path) -> Iterator[Desk]:
    (tmp_path / "desk.yaml").write_text(yaml.safe_dump(DESK))
    shared_stack.model.script(desk_reply)
    yield Desk(shared_stack, tmp_path)
    shared_stack.model.script(answer)


def invoke(desk: Desk, command: click.Command, *arguments: str, code: int = 0) -> str:
    env = desk.stack.settings.environment()
    result = CliRunner().invoke(command, arguments, env=env, standalone_mode=False)
    assert result.exception is None, result.exception
    assert (result.return_value or 0) == code, result.output
    return result.stdout


def test_a_history_with_approval_interruption_and_stop_is_explained_and_replayed(desk: Desk) -> None:
    task = desk.run("add")
    until(lambda: task.summary().status == "approval", 60, lambda: f"approval: {task.summary()}")
    assert "it waits for a person's decision: a person must approve: add (tc_" in invoke(desk, why, task.task_id)
    assert "2 of 2 choices are the same" in invoke(desk, replay_task, task.task_id)
    task.approve(task.history()[1].calls[0].id)
    until(lambda: task.summary().status == "user_turn", 60, lambda: f"user_turn: {task.summary()}")
    task.send("for ever")
    shown = (item.data for item in task.stream())
    next(item for item in shown if isinstance(item, TextPartDelta) and "on and" in item.text)
    task.interrupt("be brief")
    until(lambda: task.summary().status == "user_turn", 60, lambda: f"user_turn: {task.summary()}")
    task.stop()
    until(lambda: task.summary().status == "cancelled", 60, lambda: f"cancelled: {task.summary()}")

    count = len(task.history())
    assert f"{count} of {count} choices are the same" in invoke(desk, replay_task, task.task_id)
    story = invoke(desk, why, task.task_id)
    for line in (
        "a person approved add",
        "host was interrupted, and continues with the user's message",
        "the user interrupted the work and said: “be brief”",
        "── the task ended (cancelled): the user stopped it",
    ):
        assert line in story
    other = desk.folder / "other.yaml"
    other.write_text(yaml.safe_dump(DESK | {"collaboration_model": {"type": "sequential"}}))
    comparison = json.loads(invoke(desk, replay_task, task.task_id, "--team", str(other), "--json", code=1))
    assert comparison["verdicts"]["differs"] > 0

    made = desk.folder / "test_made.py"
    invoke(desk, export_test, task.task_id, "-o", str(made))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir=.", str(made)]
    env = {"PATH": "", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=desk.folder, check=False)
    assert done.returncode == 0, done.stdout
