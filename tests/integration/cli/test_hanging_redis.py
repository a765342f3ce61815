"""Commands while Redis is stopped: it accepts connections, and answers nothing."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from roboco import Orchestrator, Settings, parse_team
from roboco.local.valkey import find_server, start_valkey
from tests.conftest import need
from tests.support import forked
from tests.support.stack import ROOT

pytestmark = [pytest.mark.redis, pytest.mark.slow]
ONE_TIMEOUT = 9.5
"""Seconds: more than the time-out of one question to Redis, 5, and less than that of two."""
TEAM = parse_team({"name": "echo", "agents": [{"name": "echo", "prompt": "Repeat."}]})


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Yield the variables of a deployment with an open task, whose Redis is stopped."""
    need(find_server)
    folder = tmp_path_factory.mktemp("hanging")
    server = start_valkey(folder / "valkey")
    try:
        settings = Settings(redis_url=server.url, workspace=(folder / "workspace").as_uri())
        with Orchestrator(settings) as orchestrator:
            orchestrator.run(TEAM, "Hello.", task_id="t1")
        os.kill(server.pid, signal.SIGSTOP)
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("ROBOCO_")}
        yield inherited | settings.environment() | {"PYTHONPATH": str(ROOT)}
    finally:
        os.kill(server.pid, signal.SIGCONT)
        server.stop()


def run(environment: dict[str, str], folder: Path, *words: str) -> tuple[float, str]:
    """Return the duration of a command, and what it prints."""
    began = time.monotonic()
    _, printed = forked.run_command(*words, env=environment, folder=folder)
    return time.monotonic() - began, printed


@pytest.mark.parametrize("command", ["tasks", "why t1", "top --once"])
def test_a_command_waits_for_one_timeout_of_a_hanging_redis(
    environment: dict[str, str], tmp_path: Path, command: str
) -> None:
    """It names the server. A busy machine may delay one of three runs."""
    run(environment, tmp_path, "--version")  # the first command waits for the imports of all
    waited = []
    for _ in range(3):
        seconds, printed = run(environment, tmp_path, *command.split())
        assert "does not answer" in printed
        assert "being worked on" not in printed
        waited.append(seconds)
        if waited[-1] < ONE_TIMEOUT:
            return
    raise AssertionError(f"it waited {waited} s")


def test_doctor_names_the_hanging_server_and_checks_the_others(environment: dict[str, str], tmp_path: Path) -> None:
    apart = environment | {"ROBOCO_BROKER_URL": "redis://127.0.0.1:1/0"}
    _, printed = run(apart, tmp_path, "doctor", "--timeout", "60")
    lines = {line[5:].split(" ")[0]: line for line in printed.splitlines() if not line.startswith("     ")}
    assert lines["redis"].startswith("fail")
    assert lines["broker"].startswith("fail")
    assert lines["workspace"].startswith("ok")
    assert "not done" not in printed
