"""The tool lists of MCP servers, which a command requests as a tools worker of this machine does."""

from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.pool import ThreadPool
from typing import Final

from roboco.cli.doctor.check import CheckResult
from roboco.cli.terminal.format import counted
from roboco.client.wiring import build_mcp_servers
from roboco.domain.team.known_tools import missing_tools_error
from roboco.domain.team.mcp_server import McpServer
from roboco.domain.team.team import Team, default_prefix
from roboco.errors import RobocoError, UsageError
from roboco.process.process_guard import guard_process
from roboco.settings import Settings
from roboco.tools.mcp.listing import ListedTools, describe_left_out
from roboco.tools.mcp.servers import McpServers

MAX_CONNECT_TIMEOUT: Final = 60.0
"""Seconds to wait for a server at most, whatever its `connect_timeout`."""
MAX_PARALLEL: Final = 8
MAX_LISTED: Final = 10


@dataclass(frozen=True)
class TeamServer:
    """A server of a team."""

    team: Team
    name: str
    at: str = ""
    """The place of the team in its file, with a dot at its end, or "" for the outer team."""

    @property
    def declared(self) -> McpServer:
        """The server as the team declares it."""
        return self.team.mcp_servers[self.name]


@dataclass(frozen=True)
class ListingResult:
    """The tools that a server lists, or the error for which they are not known."""

    server: TeamServer
    offer: ListedTools = field(default_factory=ListedTools)
    error: str = ""
    """Why the tools are not known, or ""."""
    refused: bool = False
    """True if the operator does not allow the server here."""

    @property
    def names(self) -> list[str]:
        """The server's own names of the tools that agents can call."""
        return [tool.remote or short for short, tool in self.offer.tools.items()]

    @property
    def mistake(self) -> str:
        """The tools that the team names and the server does not list, as a sentence; "" if there are none."""
        offer = self.offer
        return (
            ""
            if self.error
            else missing_tools_error(self.server.team, self.server.name, offer.tools, offer.other_names, offer.left_out)
        )


def team_servers(team: Team, at: str = "") -> Iterator[TeamServer]:
    """Yield the servers of a team and of the teams in it."""
    yield from (TeamServer(team, name, at) for name in team.mcp_servers)
    for name, inner in team.teams.items():
        yield from team_servers(inner, f"{at}teams.{name}.")


def fetch_tools(settings: Settings, servers: Iterable[TeamServer]) -> list[ListingResult]:
    """Start or reach the servers that the operator allows, several at a time, and return their tools.

    The function ends all of them. It gives them the environment and the sandbox that a tools worker gives them.
    """
    wanted = list(servers)
    if not wanted:
        return []
    guard_process()
    # Its threads are daemons. At its end the interpreter would wait for those of a ThreadPoolExecutor.
    with closing(build_mcp_servers(settings)) as adapter, ThreadPool(min(MAX_PARALLEL, len(wanted))) as threads:
        return threads.map(partial(_fetch, adapter), wanted, chunksize=1)


def _fetch(adapter: McpServers, server: TeamServer) -> ListingResult:
    declared = server.declared
    limited = declared.model_copy(update={"connect_timeout": min(MAX_CONNECT_TIMEOUT, declared.connect_timeout)})
    try:
        adapter.check(declared)
    except UsageError as error:
        return ListingResult(server, error=str(error), refused=True)
    try:
        return ListingResult(server, adapter.list_tools(limited, default_prefix(server.name)))
    except UsageError as error:
        return ListingResult(server, error=str(error))


def check_servers(settings: Settings, teams: Iterable[Team | RobocoError | OSError]) -> Iterator[CheckResult]:
    """Check that the servers of the teams answer here, and list the tools that the teams name.

    As on a tools worker, a server is started or reached only if mcp_servers of ROBOCO_ALLOWLIST allows it.
    """
    servers = [server for team in teams if isinstance(team, Team) for server in team_servers(team)]
    yield from (_check_server(settings, answer) for answer in fetch_tools(settings, servers))


def _check_server(settings: Settings, answer: ListingResult) -> CheckResult:
    name = f"mcp {answer.server.team.name}/{answer.server.name}"
    if answer.refused:
        todo = "add to mcp_servers and mcp_env of ROBOCO_ALLOWLIST where the tools workers run, and run this there"
        return CheckResult(name, "fail" if settings.allowlist.mcp_servers else "warn", answer.error, todo)
    if answer.error:
        todo = "correct the cause in its stderr, or its address; `roboco mcp tools` asks this server alone"
        return CheckResult(name, "fail", answer.error, todo)
    if answer.mistake:
        return CheckResult(name, "fail", answer.mistake, "correct the team file; `roboco mcp tools` lists them")
    if left_out := describe_left_out(answer.offer):
        return CheckResult(name, "warn", left_out, "correct the server, or name the tools that the team needs")
    more = f" and {len(answer.names) - MAX_LISTED} more" if len(answer.names) > MAX_LISTED else ""
    listed = f"{counted(len(answer.names), 'tool')}: {', '.join(answer.names[:MAX_LISTED])}{more}"
    return CheckResult(name, "ok", f"lists {listed if answer.names else 'no tools'}")
