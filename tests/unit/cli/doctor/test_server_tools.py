"""MCP servers that a command asks in parallel."""

import threading

import pytest

from roboco import Settings
from roboco.cli.doctor import server_tools
from roboco.cli.doctor.server_tools import ListingResult, TeamServer, fetch_tools
from roboco.domain.team.validation import validate_team

TEAM = validate_team({"name": "t", "agents": [{"name": "a", "prompt": "x"}]})
SERVERS = [TeamServer(TEAM, str(number)) for number in range(20)]


def test_eight_servers_are_asked_in_parallel_and_keep_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_tools, "guard_process", lambda: None)
    met = threading.Barrier(8, timeout=30)

    def answer(_: object, server: TeamServer) -> ListingResult:
        if int(server.name) < 8:
            met.wait()
        return ListingResult(server)

    monkeypatch.setattr(server_tools, "_fetch", answer)
    assert [one.server for one in fetch_tools(Settings(), SERVERS)] == SERVERS


def test_an_exception_in_a_thread_is_raised_to_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_tools, "guard_process", lambda: None)
    monkeypatch.setattr(server_tools, "_fetch", lambda adapter, server: {}[server.name])
    with pytest.raises(KeyError):
        fetch_tools(Settings(), SERVERS)
