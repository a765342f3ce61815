"""asked_servers: what MCP servers list, when a command asks them as a tools worker of this machine does."""

import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass
from queue import Empty, SimpleQueue

from roboco.adapters.guarded import guard_process
from roboco.adapters.mcp.listed import callable_tools
from roboco.adapters.mcp.servers import McpServers
from roboco.adapters.mcp.tool import Offer
from roboco.client.wiring import mcp_servers
from roboco.domain.team.known_tools import missing
from roboco.domain.team.mcp_server import McpServer
from roboco.domain.team.team import Team
from roboco.errors import UsageError
from roboco.settings import Settings

LONGEST = 60.0
"""Seconds after which no answer of a server is awaited, whatever its `connect_timeout`."""
_AT_ONCE = 8


@dataclass(frozen=True)
class ServerOf:
    """A server of a team; `at` is the place of the team in its file, with a dot at its end."""

    team: Team
    name: str
    at: str = ""

    @property
    def declared(self) -> McpServer:
        """The server as the team declares it."""
        return self.team.mcp_servers[self.name]


@dataclass(frozen=True)
class Answer:
    """What a server lists, or why that is not known. With `refused` the operator does not allow it here."""

    server: ServerOf
    offer: Offer = Offer({})  # noqa: RUF009 - immutable
    error: str = ""
    refused: bool = False

    @property
    def names(self) -> list[str]:
        """The server's own names of the tools that the team may use and agents can call."""
        return list(callable_tools(self.server.declared, self.server.name, self.offer))

    @property
    def mistake(self) -> str:
        """Which tools the team names and the server does not list; "" if it lists them all, or did not answer."""
        return "" if self.error else missing(self.server.team, self.server.name, self.names, self.offer.others)


def servers_in(team: Team, at: str = "") -> Iterator[ServerOf]:
    """The servers of a team and of the teams in it."""
    yield from (ServerOf(team, name, at) for name in team.mcp_servers)
    for name, inner in team.teams.items():
        yield from servers_in(inner, f"{at}teams.{name}.")


def ask_servers(settings: Settings, servers: Iterable[ServerOf]) -> list[Answer]:
    """Start or reach the servers that the operator allows, several at a time, and list their tools.

    None of them is left running. Their environment and sandbox are those that a tools worker gives them.
    """
    wanted = list(servers)
    if not wanted:
        return []
    guard_process()
    with closing(mcp_servers(settings)) as adapter:
        return _answers(adapter, wanted)


def _answers(adapter: McpServers, servers: Sequence[ServerOf]) -> list[Answer]:
    """Return the answers in the order of the servers.

    The threads are daemons: the interpreter waits at its end for those of a ThreadPoolExecutor, past any timeout.
    """
    asked = [(server, Future[Answer]()) for server in servers]
    left: SimpleQueue[tuple[ServerOf, Future[Answer]]] = SimpleQueue()
    for one in asked:
        left.put(one)
    for _ in asked[:_AT_ONCE]:
        threading.Thread(target=_ask, args=(adapter, left), name="ask-mcp", daemon=True).start()
    return [answer.result() for _, answer in asked]


def _ask(adapter: McpServers, left: "SimpleQueue[tuple[ServerOf, Future[Answer]]]") -> None:
    """Ask the servers that are left, one after another."""
    while True:
        try:
            server, answer = left.get_nowait()
        except Empty:
            return
        try:
            answer.set_result(_answer(adapter, server))
        except BaseException as error:  # the thread that waits for the answer raises it
            answer.set_exception(error)


def _answer(adapter: McpServers, server: ServerOf) -> Answer:
    declared = server.declared
    patient = declared.model_copy(update={"connect_timeout": min(LONGEST, declared.connect_timeout)})
    try:
        adapter.check(declared)
    except UsageError as error:
        return Answer(server, error=str(error), refused=True)
    try:
        return Answer(server, adapter.tools_now(patient))
    except UsageError as error:
        return Answer(server, error=str(error))
