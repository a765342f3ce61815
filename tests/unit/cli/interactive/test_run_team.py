"""`roboco run` reports a mistake before the model is loaded, and no signal interrupts its end."""

import os
import signal
from pathlib import Path
from types import SimpleNamespace

import pytest

from roboco.cli.interactive import run_team
from roboco.cli.interactive.run_team import RunOptions
from roboco.cli.stack import local_stack
from roboco.cli.terminal.signals import install_signal_handlers
from roboco.client.orchestrator import Orchestrator
from roboco.domain.status import TaskStatus
from roboco.errors import UsageError
from roboco.team_files.file import parse_team

TEAM = parse_team({"name": "desk", "agents": [{"name": "writer", "prompt": "You write."}]})


class LoadingModel:
    """A local model that never arrives."""

    name, closed = "a tiny local model", False

    def launch(self) -> None:
        pass

    def ready(self) -> None:
        raise AssertionError("waits for the model")

    def close(self) -> None:
        self.closed = True


def test_a_wrong_address_is_reported_while_the_model_loads(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROBOCO_REDIS_URL", "redis://127.0.0.1:1/0")
    monkeypatch.setenv("ROBOCO_WORKSPACE", "ftp://files.example.com")
    model = LoadingModel()
    monkeypatch.setattr(local_stack, "LocalModel", lambda *_: model)
    monkeypatch.setattr(local_stack, "start_worker", lambda *_: SimpleNamespace(name="run", stop=lambda _: None))
    monkeypatch.setattr(local_stack, "kill", lambda _: None)
    with pytest.raises(UsageError, match="ROBOCO_WORKSPACE"):
        run_team.run_team(TEAM, RunOptions("hi", worker=True))
    assert model.closed


def test_a_task_that_waits_is_a_failure_of_a_team_that_must_complete() -> None:
    statuses = (TaskStatus.COMPLETED, TaskStatus.PAUSED, TaskStatus.FAILED)
    assert [run_team.exit_code(status, False) for status in statuses] == [0, 0, 1]
    assert [run_team.exit_code(status, True) for status in statuses] == [0, 1, 1]


class InterruptedClient(Orchestrator):
    """A client that gets Ctrl-C while it is closed."""

    def close(self) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        super().close()


def test_a_signal_while_the_command_closes_does_not_replace_its_result(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROBOCO_REDIS_URL", "redis://127.0.0.1:1/0")
    monkeypatch.delenv("ROBOCO_WORKSPACE", raising=False)
    monkeypatch.setattr(run_team, "Orchestrator", InterruptedClient)
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    install_signal_handlers()
    try:
        with pytest.raises(UsageError, match="no agent 'unknown'"):
            run_team.run_team(TEAM, RunOptions("hi", {"agent": "unknown"}))
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
