"""MCP servers that a command asks in parallel."""

import pytest

from roboco import Settings
from roboco.cli.doctor import server_tools
from roboco.cli.doctor.server_tools import TeamServer, fetch_tools
from roboco.domain.team.validation import validate_team

TEAM = validate_team({"name": "t", "agents": [{"name": "a", "prompt": "x"}]})
SERVERS = [TeamServer(TEAM, str(number)) for number in range(20)]


def test_an_exception_in_a_thread_is_raised_to_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_tools, "guard_process", lambda: None)
    monkeypatch.setattr(server_tools, "_fetch", lambda adapter, server: {}[server.name])
    with pytest.raises(KeyError):
        fetch_tools(Settings(), SERVERS)
