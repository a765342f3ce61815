"""`roboco dev`, and the commands that talk to the workers of a stack that stays."""

import json
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from roboco.adapters.local.seaweed import find_weed
from roboco.adapters.local.valkey import find_server
from tests.integration.cli.process import Process, assert_nothing_left, processes_in
from tests.integration.cli.shell import Shell, answer, shell_in
from tests.integration.local.test_local_servers import installed
from tests.support.servers.model_server import ModelServer

pytestmark = [pytest.mark.workers, pytest.mark.redis, pytest.mark.s3, pytest.mark.slow]


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    installed(find_server)
    installed(find_weed)
    with ModelServer() as model:
        model.script(answer)
        yield shell_in(tmp_path, model)


def test_a_stack_that_stays(shell: Shell) -> None:
    with shell.start("dev") as dev:
        for part in ("coordinator", "agents", "tools", "flower"):
            dev.says(f"{part} is ready")
        user = exported(shell, dev)
        check_doctor(user)
        check_commands(user)
        kill(shell, "roboco.workers.agents")
        kill(shell, "valkey-server")
        dev.says("agents ended with code -9, starts again in 0.5 s")
        dev.says("agents is ready", count=2)
        dev.says("valkey is back")
        check_after_restart(user)
        dev.signal(signal.SIGINT)
        assert dev.end() == 0
        assert dev.output.endswith("everything has ended\n")
        assert dev.errors == ""
    assert_nothing_left(shell.folder)


def exported(shell: Shell, dev: Process) -> Shell:
    """The shell with what it has to export, which is printed and kept for its user alone."""
    kept = shell.folder / ".roboco/dev/env"
    assert kept.stat().st_mode & 0o777 == 0o600
    assert kept.read_text() in dev.output
    pairs = (line.removeprefix("export ").split("=", 1) for line in kept.read_text().splitlines() if "=" in line)
    return replace(shell, env=shell.env | dict(pairs))


def check_doctor(user: Shell) -> None:
    report = json.loads(user.run("doctor", "--json"))
    states = {check["name"]: check["state"] for check in report["checks"]}
    assert report["ok"]
    for name in ("redis", "redis memory", "redis disk", "broker", "workspace", "queue roboco.agents"):
        assert states[name] == "ok", report
    without = replace(user, env=user.env | {"ROBOCO_REDIS_URL": "redis://127.0.0.1:1/0"})
    broken = json.loads(without.run("doctor", "--json", code=1))
    assert [check["name"] for check in broken["checks"] if check["state"] == "fail"] == ["redis"]


def check_commands(user: Shell) -> None:
    assert user.call("submit", str(user.folder / "talk.yaml"), "hello", "--id", "talk") == "talk\n"
    with user.start("watch", "talk") as watch:
        watch.says("user_turn")
        assert user.call("send", "talk", "and now?") == "sent to talk\n"
        watch.says("you said and now?")
        watch.says("user_turn", count=2)
        assert user.call("stop", "talk", "--reason", "that is all").startswith("talk has stopped")
        assert watch.end() == 1
        assert "── cancelled · that is all" in watch.output
    before = len(processes_in(user.folder))
    with user.start("run", "talk.yaml", "for ever", "--json") as run:
        run.says("on and ")
        assert len(processes_in(user.folder)) == before + 1  # it has taken the workers that were there
        run.signal(signal.SIGINT)
        assert run.end() == 130


def check_after_restart(user: Shell) -> None:
    (talk, endless) = json.loads(user.call("tasks", "--json"))
    assert (talk["task_id"], talk["status"], endless["status"]) == ("talk", "cancelled", "cancelled")
    assert user.call("verify", "talk").endswith(" steps are intact\n")
    output = user.run("run", "team.yaml", "once more", "--context", "tone=kindly")
    assert "a fine text" in output


def kill(shell: Shell, name: str) -> None:
    """Kill the oldest process of this name, which is the one that was started; its children go with it."""
    os.kill(min(pid for pid, command in processes_in(shell.folder).items() if name in command), signal.SIGKILL)
