"""The command line as users run it: real processes and a scripted model, without running servers."""

import json
import os
import re
import shutil
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from roboco.cli import main
from roboco.errors import CorruptHistory
from roboco.local.valkey import find_server
from tests.integration.cli.process import assert_nothing_left, processes_in
from tests.integration.cli.shell import Shell, answer, create_shell
from tests.integration.local.test_local_servers import find_or_skip
from tests.support.servers.model_server import ModelServer

pytestmark = [pytest.mark.workers, pytest.mark.redis]


@pytest.fixture(scope="module")
def model() -> Iterator[ModelServer]:
    with ModelServer() as server:
        server.script(answer)
        yield server


@pytest.fixture
def shell(tmp_path: Path, model: ModelServer) -> Shell:
    find_or_skip(find_server)
    return create_shell(tmp_path, model)


@pytest.fixture(scope="module")
def completed_run(tmp_path_factory: pytest.TempPathFactory, model: ModelServer) -> tuple[Shell, str]:
    """Return a shell in whose folder team `pair` has run, and the output of that run."""
    find_or_skip(find_server)
    shell = create_shell(tmp_path_factory.mktemp("done"), model)
    output = shell.run("run", "team.yaml", "write a poem", "--context", "tone=kindly", "--id", "poem")
    assert_nothing_left(shell.folder)
    return shell, output


def test_run_prints_steps_reasons_and_totals(completed_run: tuple[Shell, str], model: ModelServer) -> None:
    shell, output = completed_run
    assert "\x1b" not in output
    assert "\x07" not in output
    assert output.splitlines()[:2] == ["starting Redis and a worker", "task poem · team pair"]
    for line in (
        "── writer · writer is number 1 in the order",
        "   → add(a=19, b=23)",
        "bright31m the sum is 42",
        "── critic · critic is number 2 in the order",
        "a fine text",
        "── completed · 1 round is done",
        "files: .roboco/workspace/poem",
    ):
        assert line in output.splitlines()
    assert "← add " in output
    assert "5 steps · 40 tokens in, 13 out" in output
    assert (shell.folder / ".roboco/workspace/poem/history.jsonl").is_file()
    assert any("You write, kindly." in record.request.system for record in model.requests)


def test_commands_that_inspect_a_task_need_no_servers(
    completed_run: tuple[Shell, str],
) -> None:
    shell, _ = completed_run
    workspace = {"ROBOCO_WORKSPACE": (shell.folder / ".roboco/workspace").as_uri()}
    shell = replace(shell, env=shell.env | workspace)
    (entry,) = shell.call_json("tasks", "--json")["tasks"]
    assert (entry["task_id"], entry["status"], entry["steps"]) == ("poem", "completed", 5)
    whole = shell.call_json("show", "poem", "--json")
    assert entry.pop("waits") is False  # of the index alone
    assert {name: whole["summary"][name] for name in entry} == entry
    assert [step["agent_name"] for step in whole["steps"]] == ["user", "writer", "tool_executor", "writer", "critic"]
    assert json.loads(shell.call("verify", "poem", "--json")) == {"intact": True, "steps": 5, "unfinished_line": False}
    shown = shell.call("show", "poem")
    assert "\x1b" not in shown
    for text in ("write a poem", "→ add(a=19, b=23)", "← add", "bright31m the sum is 42", "a fine text", "completed"):
        assert text in shown


def test_tasks_of_a_damaged_restore_are_shown_or_reported(completed_run: tuple[Shell, str], tmp_path: Path) -> None:
    shell, _ = completed_run
    whole = shell.folder / ".roboco/workspace"
    for task_id in ("torn", "stepless"):
        shutil.copytree(whole / "poem", tmp_path / task_id)
        for name in ("history.jsonl", "task.json", "events.jsonl"):
            file = tmp_path / task_id / name
            file.write_bytes(file.read_bytes().replace(b'"poem"', f'"{task_id}"'.encode()))
    torn = tmp_path / "torn/task.json"
    torn.write_bytes(torn.read_bytes()[:40])
    (tmp_path / "stepless/history.jsonl").unlink()
    env = shell.env | {"ROBOCO_WORKSPACE": tmp_path.as_uri(), "ROBOCO_REDIS_URL": "redis://127.0.0.1:1/0"}

    def invoke(*arguments: str) -> Result:
        return CliRunner().invoke(main.commands, arguments, env=env, standalone_mode=False)

    listed = invoke("tasks", "--json")
    assert listed.return_value == 1
    assert [(one["task_id"], one["steps"]) for one in json.loads(listed.stdout)["tasks"]] == [("stepless", 5)]
    assert "tasks are shown as the workspace has them" in listed.stderr
    message = json.loads(listed.stderr.splitlines()[-1])["message"]
    assert "'torn/task.json' cannot be read: restore it from a backup" in message
    for command in ("show", "verify", "why"):
        for task_id in ("stepless", "torn"):
            assert isinstance(invoke(command, task_id).exception, CorruptHistory), (command, task_id)
    assert "its history has 0; restore 'stepless/history.jsonl'" in str(invoke("show", "stepless").exception)


def test_ctrl_c_stops_the_task(shell: Shell) -> None:
    with shell.start("run", "team.yaml", "for ever", "--context", "tone=kindly", "--id", "endless") as process:
        process.wait_for_text("on and ")
        assert processes_in(shell.folder)
        process.send_signal(signal.SIGINT)
        assert process.wait_for_exit() == 130
        assert "── cancelled · stopped by the user" in process.output
        assert "(interrupted)" in process.output
        assert "3 steps · " in process.output  # one of them is the text until the interruption
        assert process.errors == ""
    assert_nothing_left(shell.folder)
    summary = json.loads((shell.folder / ".roboco/workspace/endless/task.json").read_text())
    assert summary["status"] == "cancelled"


@pytest.mark.slow
def test_a_second_ctrl_c_ends_the_command_at_once(shell: Shell) -> None:
    with shell.start("run", "talk.yaml", "for ever") as process:
        process.wait_for_text("on and ")
        frozen = [pid for pid, command in processes_in(shell.folder).items() if "roboco.workers.app" in command]
        for pid in frozen:
            os.kill(pid, signal.SIGSTOP)
        process.send_signal(signal.SIGINT)
        process.wait_for_text("stopping the task")
        process.send_signal(signal.SIGINT)
        assert process.wait_for_exit(10) == 130
    assert_nothing_left(shell.folder)


@pytest.mark.slow
def test_a_worker_that_dies_ends_the_run(shell: Shell) -> None:
    with shell.start("run", "talk.yaml", "for ever", "--id", "again") as process:
        process.wait_for_text("on and ")
        for pid, command in processes_in(shell.folder).items():
            if "roboco.workers.app" in command:
                with suppress(ProcessLookupError):  # children of a worker end with it
                    os.kill(pid, signal.SIGKILL)
        assert process.wait_for_exit() == 1
        assert "error: server 'run' ended with code -9; the end of '" in process.errors
        assert "Traceback" not in process.errors
    assert_nothing_left(shell.folder)


def test_demo_runs_its_team_to_the_end(shell: Shell) -> None:
    output = shell.run("demo", "a walk in the rain")
    assert "Write a short paragraph about a walk in the rain." in output
    assert output.index("── writer") < output.index("── critic") < output.index("── completed")
    assert re.search(r"→ style_rule\(.*\)\n *← style_rule ·( [\d.]+ m?s ·)? Write about the ", output), output
    assert output.count("── writer") == 2, "the critic hands back once"
    assert output.splitlines()[0] == "starting Redis and a worker"
    assert output.splitlines()[-1].endswith("init my-team")
    assert_nothing_left(shell.folder)
