"""`roboco dev`, and the commands that use its servers and workers."""

import json
import os
import re
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from roboco.local.seaweed import find_weed
from roboco.local.valkey import find_server
from tests.integration.cli.process import CommandProcess, assert_nothing_left, processes_in
from tests.integration.cli.shell import Shell, answer, create_shell
from tests.integration.local.test_local_servers import find_or_skip
from tests.support.servers.model_server import ModelServer
from tests.support.stack import until

pytestmark = [pytest.mark.workers, pytest.mark.redis, pytest.mark.s3, pytest.mark.slow]


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    find_or_skip(find_server)
    find_or_skip(find_weed)
    with ModelServer() as model:
        model.script(answer)
        yield create_shell(tmp_path, model)


def test_dev_restarts_workers_and_servers_that_die(shell: Shell) -> None:
    with shell.start("dev") as dev:
        for part in ("coordinator", "agents", "tools", "flower", "gateway"):
            dev.wait_for_text(f"{part} is ready")
        assert dev.output.startswith("starting Redis, S3, workers, Flower and the gateway in")
        user = with_printed_variables(shell, dev)
        check_doctor(user)
        check_commands(user)
        check_gateway(dev)
        kill_oldest(shell, "roboco.workers.agents")
        kill_oldest(shell, "valkey-server")
        dev.wait_for_text("agents ended with code -9, starts again in 0.5 s")
        dev.wait_for_text("agents is ready", count=2)
        dev.wait_for_text("valkey is back")
        check_after_restart(user)
        dev.send_signal(signal.SIGINT)
        assert dev.wait_for_exit() == 0
        assert dev.output.endswith("everything has ended\n")
        assert dev.errors == ""
    assert_nothing_left(shell.folder)


def with_printed_variables(shell: Shell, dev: CommandProcess) -> Shell:
    """Return the shell with the variables that `roboco dev` prints and writes to a file of mode 600."""
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


def check_gateway(dev: CommandProcess) -> None:
    """Check that the printed gateway serves this machine without a key, and no other name of it."""
    found = re.search(r"web view +(http://127\.0\.0\.1:\d+)/ and HTTP gateway, for this machine alone", dev.output)
    assert found is not None
    with urlopen(f"{found[1]}/v1/me", timeout=60) as response:
        assert json.load(response)["by"] == "local"
    with pytest.raises(HTTPError) as raised:
        urlopen(Request(f"{found[1]}/v1/me", headers={"Host": "evil.example"}), timeout=60)
    assert raised.value.code == 403
    raised.value.close()


def check_commands(user: Shell) -> None:
    assert user.call("submit", str(user.folder / "talk.yaml"), "hello", "--id", "talk") == "talk\n"
    with user.start("watch", "talk") as watch:
        watch.wait_for_text("user_turn")
        assert user.call("send", "talk", "and now?") == "sent to talk\n"
        watch.wait_for_text("you said and now?")
        watch.wait_for_text("user_turn", count=2)
        assert user.call("stop", "talk", "--reason", "that is all").startswith("talk has stopped")
        assert watch.wait_for_exit() == 1
        assert "── cancelled · that is all" in watch.output
    before = len(processes_in(user.folder))
    with user.start("run", "talk.yaml", "for ever", "--json") as run:
        run.wait_for_text("on and ")
        assert len(processes_in(user.folder)) == before + 1  # the command uses the running workers
        run.send_signal(signal.SIGINT)
        assert run.wait_for_exit() == 130


def check_after_restart(user: Shell) -> None:
    until(lambda: json.loads(user.call("tasks", "--json"))["complete"], 60, "the index is complete")
    (endless, talk) = json.loads(user.call("tasks", "--json"))["tasks"]
    assert (talk["task_id"], talk["status"], endless["status"]) == ("talk", "cancelled", "cancelled")
    assert user.call("verify", "talk").endswith(" steps are intact\n")
    output = user.run("run", "team.yaml", "once more", "--context", "tone=kindly")
    assert "a fine text" in output


def kill_oldest(shell: Shell, name: str) -> None:
    """Kill the oldest process of this name, the parent of the others, whose children end with it."""
    os.kill(min(pid for pid, command in processes_in(shell.folder).items() if name in command), signal.SIGKILL)
