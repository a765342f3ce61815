"""MCP servers that misbehave, and team files that name servers which the operator does not allow."""

import logging
import os
import resource
import signal
import subprocess
import sys
from typing import Any, cast

import pytest

from roboco.domain.team.mcp_server import McpServer
from roboco.domain.team.validation import validate_team
from roboco.errors import UsageError
from roboco.tools.mcp import session
from roboco.tools.mcp.confinement import Confinement, ConfinementMode
from roboco.tools.mcp.listing import MAX_DESCRIPTION_CHARS, build_listing
from roboco.tools.mcp.servers import McpServers, check_allowed
from tests.support.mcp_servers import (
    HOSTILE,
    SHOP,
    WORKER,
    call,
    declare_server,
    is_running,
    listed,
    never,
    open_servers,
    wait_until,
)

pytestmark = pytest.mark.slow

ANY_OBJECT = {"type": "object"}


def hostile(kind: str, **fields: Any) -> McpServer:
    """Return the hostile server of this kind."""
    return declare_server((*HOSTILE, kind), **{"tools": ["one", "two", "three", "tool9999"]} | fields)


def test_a_huge_description_and_schema_are_cut() -> None:
    server = hostile("huge")
    with open_servers(server) as servers:
        tools = listed(servers, server)
    assert len(tools["one"].description) == MAX_DESCRIPTION_CHARS
    assert tools["two"].input_schema == ANY_OBJECT
    assert "left out: it has 1000034 characters" in tools["two"].description


def test_a_team_gets_only_its_named_tools_of_ten_thousand() -> None:
    server = hostile("many")
    with open_servers(server) as servers:
        assert list(listed(servers, server)) == ["tool9999"]


def test_ten_thousand_tools_are_too_many_for_a_team_that_takes_all() -> None:
    server = hostile("many", tools="all")
    data = {"name": "t", "agents": [{"name": "a", "prompt": "x"}], "mcp_servers": {"shop": server.model_dump()}}
    with open_servers(server) as servers:
        offer = servers.list_tools(server, "shop_")
    assert (len(offer.tools), len(offer.other_names), offer.unnamed_count) == (1000, 50, 8950)
    with pytest.raises(UsageError, match="'shop' lists 10000 tools, at most 200 are kept: name those that the team"):
        build_listing(validate_team(data), "shop", offer)


def test_large_pages_are_read_until_the_time_is_up() -> None:
    server = hostile("endless-large", tools="all", connect_timeout=2.0)
    with open_servers(server) as servers:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with pytest.raises(UsageError, match="did not list its tools: it did not answer in time"):
            listed(servers, server)
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000


@pytest.mark.parametrize("kind", ["garbage", "modern", "stubborn"])
def test_harmless_violations_of_the_protocol_are_tolerated(kind: str) -> None:
    server = hostile(kind)
    with open_servers(server) as servers:
        assert list(listed(servers, server)) == ["one"]
        assert call(servers, server, "one", {}) == "called one"


@pytest.mark.parametrize(
    ("kind", "error", "more"),
    [
        ("mute", "did not complete the call of 'one': it did not answer in time", {"timeout": 2.0}),
        ("flood", r"lost \(it was ended: it wrote more than 16777216 bytes that are no message\)", {}),
        ("long-line", r"lost \(it was ended: it wrote a line of more than 16777216 bytes\)", {}),
    ],
)
def test_calls_of_a_misbehaving_server_are_errors(
    kind: str, error: str, more: dict[str, float], caplog: pytest.LogCaptureFixture
) -> None:
    server = hostile(kind, **more)
    with open_servers(server) as servers, caplog.at_level(logging.INFO):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for _ in range(2):
            with pytest.raises(UsageError, match=error):
                call(servers, server, "one", {})
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000
    assert len(caplog.text) < 2000


def test_a_server_that_stops_answering_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "PING_TIMEOUT", 0.3)
    server = hostile("deaf", timeout=0.3)
    with open_servers(server) as servers:
        with pytest.raises(UsageError, match="did not complete"):
            call(servers, server, "one", {})
        (known,) = servers._connections.values()
        wait_until(cast(Any, known)._session.running.ended.is_set)
        assert list(listed(servers, server)) == ["one"]


PRINT_SECRET = "import os, sys; print('no licence for', os.environ['SHOP_TOKEN'], file=sys.stderr, flush=True); "


@pytest.mark.parametrize("mode", ["off", "network"])
@pytest.mark.parametrize(
    ("last", "error"),
    [
        ("sys.exit(3)", {"off": "exit status 3", "network": "exit status 3"}),
        (
            "os.kill(os.getpid(), 9)",
            {"off": "because of signal SIGKILL", "network": "exit status 137, as after signal SIGKILL"},
        ),
    ],
)
def test_a_server_that_dies_at_its_start_is_reported_with_the_cause(
    mode: ConfinementMode,
    last: str,
    error: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "secret-of-the-shop")
    server = declare_server((sys.executable, "-c", PRINT_SECRET + last), env=["SHOP_TOKEN"])
    with open_servers(server, confinement=Confinement(mode)) as servers, pytest.raises(UsageError) as raised:
        servers.list_tools(server, "shop_")
    assert f"{error[mode]}; the log has the end of its stderr" in str(raised.value)
    assert "its stderr ends with\n  | no licence for ***" in caplog.text
    assert "secret-of-the-shop" not in caplog.text + str(raised.value)


def test_flood_of_stderr_blocks_nothing_and_is_logged_in_part(caplog: pytest.LogCaptureFixture) -> None:
    flood = "import sys; sys.stderr.write('a' * 100_000 + ' secret\\n' + 'line\\n' * 100_000 + '\\x1b[31mlast\\x07\\n')"
    server = declare_server((sys.executable, "-c", flood))
    with open_servers(server) as servers, pytest.raises(UsageError, match="exit status 0"):
        servers.list_tools(server, "shop_")
    assert caplog.text.endswith("  | line\n" * 19 + "  | last?\n")
    assert caplog.text.count("| ") == 20


def test_a_killed_worker_leaves_no_server_behind() -> None:
    command = (*HOSTILE, "stubborn")
    worker = subprocess.Popen([*WORKER, *command], stdout=subprocess.PIPE, text=True)
    assert worker.stdout is not None
    child = int(worker.stdout.readline())
    try:
        started = descendants(worker.pid) - {child}
        assert len(started) == 2
        worker.kill()
        worker.wait()
        wait_until(lambda: not any(is_running(pid) for pid in started))
    finally:
        worker.kill()
        worker.stdout.close()
        os.kill(child, signal.SIGKILL)


def descendants(pid: int) -> set[int]:
    """Return the child processes of a process and their descendants."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    parents = {int(one): int(parent) for one, parent in map(str.split, listed.splitlines())}
    found = {pid}
    while more := {one for one, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {pid}


@pytest.mark.parametrize(
    ("entry", "url"),
    [
        ("https://mcp.example.com", "https://mcp.example.com.evil/mcp"),
        ("https://mcp.example.com/a", "https://mcp.example.com/ab"),
        ("*", "https://mcp.example.com/"),
    ],
)
def test_addresses_that_are_not_below_an_entry_are_refused(entry: str, url: str) -> None:
    with pytest.raises(UsageError, match="mcp_servers of ROBOCO_ALLOWLIST"):
        check_allowed(McpServer(url=url, tools={"a": {}}), (entry,), ())


def test_command_lines_that_are_not_allowed_are_refused() -> None:
    server = declare_server(("sh", "-c", "echo a b"))
    check_allowed(server, ("sh -c 'echo a b'",), ())
    for entry in ("", "sh", "sh -c 'echo a b' more", "sh -c echo a b", "https://mcp.example.com/"):
        with pytest.raises(UsageError, match=r"MCP server .* is not allowed on this worker.*mcp_servers of"):
            check_allowed(server, (entry,), ())


def test_a_server_gets_no_variable_that_the_operator_does_not_name() -> None:
    command = McpServer(command=("x",), env=("AWS_SECRET_ACCESS_KEY",), tools={"a": {}})
    address = McpServer(url="https://a.example", headers={"Authorization": "WEB_KEY"}, tools={"a": {}})
    for server, name in ((command, "AWS_SECRET_ACCESS_KEY"), (address, "WEB_KEY")):
        with pytest.raises(UsageError, match=f"must not get variable {name} .* mcp_env of ROBOCO_ALLOWLIST"):
            check_allowed(server, ("x", "https://a.example"), ())
        check_allowed(server, ("x", "https://a.example"), (name,))


def test_a_server_that_is_not_allowed_is_not_started() -> None:
    servers = McpServers(("python -m shop",))
    with pytest.raises(UsageError, match="mcp_servers of ROBOCO_ALLOWLIST"):
        listed(servers, declare_server(SHOP))
    with pytest.raises(UsageError, match="mcp_servers of ROBOCO_ALLOWLIST"):
        servers.call(declare_server(SHOP), "search", {}, "k", never)
    assert servers._connections == {}
