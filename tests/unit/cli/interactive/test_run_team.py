"""`roboco run` reports a mistake before the model is loaded, and no signal interrupts its end."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

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
NO_SERVER = "redis://127.0.0.1:1/0"


class ServerProcess:
    """A server that runs until it is stopped."""

    name = "run"

    def __init__(self) -> None:
        self.stop_timeouts: list[float] = []

    def alive(self) -> bool:
        return True

    def stop(self, timeout: float) -> None:
        self.stop_timeouts.append(timeout)


class LoadingModel:
    """A local model that is still downloaded: waiting for it fails the test."""

    name = "a tiny local model"

    def __init__(self, *_: object) -> None:
        self.closed = False

    def ready(self) -> None:
        raise AssertionError("waits for the model")

    def close(self) -> None:
        self.closed = True


@pytest.fixture(autouse=True)
def environment_of_a_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Name a Redis, and no model, in a new folder."""
    monkeypatch.chdir(tmp_path)
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ROBOCO_BROKER_URL", "ROBOCO_WORKSPACE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ROBOCO_REDIS_URL", NO_SERVER)


@pytest.fixture
def signal_handlers() -> Iterator[None]:
    """Install the signal handlers of a command, and restore those of the tests afterwards."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    install_signal_handlers()
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(
    ("name", "address"),
    [("ROBOCO_WORKSPACE", "ftp://files.example.com"), ("ROBOCO_BROKER_URL", "redis+cluster://redis.example.com")],
)
def test_a_wrong_address_is_reported_while_the_model_loads(
    monkeypatch: pytest.MonkeyPatch, name: str, address: str
) -> None:
    worker, models = ServerProcess(), list[LoadingModel]()

    def load(*arguments: object) -> LoadingModel:
        models.append(LoadingModel(*arguments))
        return models[-1]

    monkeypatch.setattr(local_stack, "LocalModel", load)
    monkeypatch.setattr(local_stack, "start_worker", lambda *_: worker)
    monkeypatch.setattr(local_stack, "kill", lambda _: None)
    monkeypatch.setenv(name, address)
    with pytest.raises(UsageError, match=name):
        run_team.run_team(TEAM, RunOptions("hi", worker=True))
    assert [model.closed for model in models] == [True]
    assert worker.stop_timeouts == [0]


@pytest.mark.parametrize(
    ("status", "codes"),
    [
        (TaskStatus.COMPLETED, (0, 0)),
        (TaskStatus.PAUSED, (0, 1)),
        (TaskStatus.USER_TURN, (0, 1)),
        (TaskStatus.FAILED, (1, 1)),
    ],
)
def test_a_task_that_waits_is_a_failure_of_a_team_that_must_complete(
    status: TaskStatus, codes: tuple[int, int]
) -> None:
    assert (run_team.exit_code(status, False), run_team.exit_code(status, True)) == codes


@pytest.mark.usefixtures("signal_handlers")
def test_a_signal_while_the_command_closes_does_not_replace_its_result(monkeypatch: pytest.MonkeyPatch) -> None:
    class InterruptedClient(Orchestrator):
        def close(self) -> None:
            os.kill(os.getpid(), signal.SIGINT)
            super().close()

    monkeypatch.setattr(run_team, "Orchestrator", InterruptedClient)
    with pytest.raises(UsageError, match="no agent 'unknown'"):
        run_team.run_team(TEAM, RunOptions("hi", {"agent": "unknown"}))
