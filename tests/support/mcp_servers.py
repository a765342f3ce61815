"""Declarations of MCP servers for tests, real server processes, and waiting for a condition."""

import os
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from roboco.domain.team.mcp_server import McpServer
from roboco.domain.team.tool_listing import ListedTool
from roboco.tools.mcp.confinement import Confinement
from roboco.tools.mcp.servers import McpServers
from tests.support.stack import BUSY_FACTOR

SHOP = (sys.executable, str(Path(__file__).with_name("mcp_server_stdio.py")))
HOSTILE = (sys.executable, str(Path(__file__).with_name("mcp_hostile_stdio.py")))
WORKER = (sys.executable, "-m", "tests.support.mcp_worker")
PROC = Path("/proc")  # on Linux only
TOOLS = ["search", "reserve", "buy", "fail", "leak", "who", "slow", "process", "picture", "retire"]


def never() -> bool:
    """Return False: the caller does not cancel."""
    return False


def listed(servers: McpServers, server: McpServer) -> dict[str, ListedTool]:
    """Return the tools that the server lists for the team."""
    return servers.list_tools(server, "shop_").tools


def call(servers: McpServers, server: McpServer, tool: str, args: dict[str, Any], key: str = "k") -> Any:
    """Return the result of a call that is not cancelled."""
    return servers.call(server, tool, args, key, never)[0]


def declare_server(command: tuple[str, ...] = SHOP, **fields: Any) -> McpServer:
    """Return the declaration of a server that is started by its command, or reached at `url`.

    By default it has a minute to start: on a busy machine its imports alone may take more than ten seconds.
    """
    way = {} if "url" in fields else {"command": command}
    return McpServer.model_validate({**way, "tools": TOOLS, "connect_timeout": 60, **fields})


@contextmanager
def open_servers(server: McpServer, **options: Any) -> Iterator[McpServers]:
    """Yield the adapter with this server as the only allowed one. Close it at the end of the block."""
    allowed = shlex.join(server.command) if server.command else server.url or ""
    options = {"confinement": Confinement("off")} | options  # tests name processes and files outside of the sandbox
    servers = McpServers((allowed,), server.variables, **options)
    try:
        yield servers
    finally:
        servers.close()


@contextmanager
def run_http_server(port: int) -> Iterator["subprocess.Popen[bytes]"]:
    """Run the shop over streamable HTTP."""
    process = subprocess.Popen([*SHOP, "--http", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: _answers(port))
        yield process
    finally:
        process.kill()
        process.wait()


def wait_until(condition: Callable[[], bool], limit: float = 30.0) -> None:
    """Wait until the condition holds. Raise AssertionError after `limit` seconds, or some times that if it is busy."""
    until = time.monotonic() + limit * BUSY_FACTOR
    while not condition():
        assert time.monotonic() < until, "the condition did not come true in time"
        time.sleep(0.01)


def is_running(pid: int) -> bool:
    """Return True if the process runs; a zombie does not."""
    status = Path(f"/proc/{pid}/stat")
    try:
        os.kill(pid, 0)
        return not PROC.exists() or status.read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


def _answers(port: int) -> bool:
    with socket.socket() as asking:
        return asking.connect_ex(("127.0.0.1", port)) == 0
