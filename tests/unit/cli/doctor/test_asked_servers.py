"""MCP servers that a command asks side by side."""

import subprocess
import sys
import threading

import pytest

from roboco import Settings
from roboco.cli.doctor import asked_servers
from roboco.cli.doctor.asked_servers import Answer, ServerOf, ask_servers
from roboco.domain.team.validation import read_team

TEAM = read_team({"name": "t", "agents": [{"name": "a", "prompt": "x"}]})
SERVERS = [ServerOf(TEAM, str(number)) for number in range(20)]
HANGS = """
import threading
from roboco.cli.doctor import asked_servers
from roboco.cli.doctor.abreast import Group, abreast
from tests.unit.cli.doctor.test_asked_servers import SERVERS, Settings

asked_servers._answer = lambda adapter, server: threading.Event().wait()
for check in abreast([Group("mcp", lambda: asked_servers.ask_servers(Settings(), SERVERS))], 1):
    print(check.found)
"""


def test_a_server_that_hangs_does_not_keep_the_process() -> None:
    ended = subprocess.run([sys.executable, "-c", HANGS], capture_output=True, text=True, timeout=60, check=True)
    assert ended.stdout == "not done after 1 s\n"


def test_eight_servers_are_asked_at_once_and_answer_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asked_servers, "guard_process", lambda: None)
    met = threading.Barrier(8, timeout=30)

    def answer(_: object, server: ServerOf) -> Answer:
        if int(server.name) < 8:
            met.wait()
        return Answer(server)

    monkeypatch.setattr(asked_servers, "_answer", answer)
    assert [one.server for one in ask_servers(Settings(), SERVERS)] == SERVERS


def test_a_mistake_in_a_thread_is_raised_where_the_answers_are_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asked_servers, "guard_process", lambda: None)
    monkeypatch.setattr(asked_servers, "_answer", lambda adapter, server: {}[server.name])
    with pytest.raises(KeyError):
        ask_servers(Settings(), SERVERS)
