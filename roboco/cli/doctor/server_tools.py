"""The tool lists of MCP servers, which a command requests as a tools worker of this machine does."""

import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Final

from roboco.client.wiring import build_mcp_servers
from roboco.domain.team.known_tools import missing_tools_error
from roboco.domain.team.mcp_server import McpServer
from roboco.domain.team.team import Team, default_prefix
from roboco.errors import UsageError
from roboco.process.process_guard import guard_process
from roboco.settings import Settings
from roboco.tools.mcp.listing import ListedTools
from roboco.tools.mcp.servers import McpServers

MAX_CONNECT_TIMEOUT: Final = 60.0
"""Seconds to wait for a server at most, whatever its `connect_timeout`."""
MAX_PARALLEL: Final = 8


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
    with closing(build_mcp_servers(settings)) as adapter:
        return _fetch_all(adapter, wanted)


def _fetch_all(adapter: McpServers, servers: Sequence[TeamServer]) -> list[ListingResult]:
    """Return the answers in the order of the servers.

    The threads are daemons. At its end the interpreter would wait for those of a ThreadPoolExecutor, past any timeout.
    """
    asked = [(server, Future[ListingResult]()) for server in servers]
    left: SimpleQueue[tuple[TeamServer, Future[ListingResult]]] = SimpleQueue()
    for one in asked:
        left.put(one)
    for _ in asked[:MAX_PARALLEL]:
        threading.Thread(target=_fetch_remaining, args=(adapter, left), name="ask-mcp", daemon=True).start()
    return [answer.result() for _, answer in asked]


def _fetch_remaining(adapter: McpServers, left: "SimpleQueue[tuple[TeamServer, Future[ListingResult]]]") -> None:
    """Ask the remaining servers, one after another."""
    while True:
        try:
            server, answer = left.get_nowait()
        except Empty:
            return
        try:
            answer.set_result(_fetch(adapter, server))
        except BaseException as error:  # the thread that waits for the answer raises it
            answer.set_exception(error)


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
