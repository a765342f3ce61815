"""McpServers: the MCP servers that this process is connected to, their tools, and calls of these tools.

The operator allows them: a team file alone can neither start a process nor reach an address.
"""

import importlib
import pkgutil
import shlex
import threading
import time
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

from roboco.domain.history.part import Media
from roboco.domain.team.mcp_server import ClientCredentials, McpServer
from roboco.domain.url import covers
from roboco.errors import UsageError
from roboco.model.loop_thread import LoopThread
from roboco.ports.tools import TaskOwner
from roboco.process.credential_mask import CredentialMask
from roboco.process.credentials import Credentials
from roboco.tools.mcp.confinement import Confinement
from roboco.tools.mcp.listing import ListedTools, is_wanted
from roboco.tools.mcp.result import result_of

NO_OWNER = TaskOwner()
MAX_CONNECTIONS = 200
"""Number of connections at which those without a session are forgotten."""
IDLE_TIMEOUT = 60.0
"""Seconds after which an unused session is ended."""
MAX_PAGES = 100
"""Maximum number of pages of a server's list that are read."""
_CLOSE_TIMEOUT = 5.0


class McpServers:
    """Connections to MCP servers, for all threads of one process: a child that is forked needs new ones.

    A server is started or contacted at its first use.

    `allowed`: command lines as `shlex.join` writes them, and addresses, which also allow all addresses below them.
    `variables`: variables of this process that servers may get. `confinement`: the confinement of servers that are
    started. `tokens` is what workers share about tokens, a `RedisTokenStore`. `get_token` is the operator's function
    that returns one: "package.module:name". `credentials` are those of tenants.
    """

    def __init__(  # noqa: PLR0913 - as many as an operator decides
        self,
        allowed: tuple[str, ...],
        variables: tuple[str, ...] = (),
        *,
        confinement: Confinement = Confinement(),  # noqa: B008 - immutable
        idle_timeout: float = IDLE_TIMEOUT,
        tokens: Any = None,
        get_token: str | None = None,
        credentials: Credentials | None = None,
    ) -> None:
        self._allowed = allowed
        self._variables = variables
        self._confinement = confinement
        self._idle_timeout = idle_timeout
        self._tokens = tokens
        self._get_token = get_token
        self._credentials = credentials or Credentials()
        self._lock = threading.Lock()
        self._loop = LoopThread()
        self._connections: dict[tuple[str, TaskOwner], Any] = {}
        self._own_names: dict[str, dict[str, str]] = {}

    def list_tools(self, server: McpServer, prefix: str, owner: TaskOwner = NO_OWNER) -> ListedTools:
        """Return the server's current tools by their short names, with the settings of the team.

        `prefix` is the default prefix of their names. Raise UsageError if the server does not respond. Takes at most
        `connect_timeout`.
        """
        self.check(server)
        connection = self._connection(server, owner)
        until = time.monotonic() + server.connect_timeout
        found, wanted = ListedTools(), is_wanted(server, prefix)
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            before, (page, cursor) = cursor, connection.list_page(cursor, until)
            mask = connection.masker()
            for tool in page:
                found.add(tool, wanted, mask, time.monotonic() < until)
            if not cursor or cursor == before:
                break
        offered = found.offered(server, prefix)
        self._own_names[server.cache_key] = {short: tool.remote or short for short, tool in offered.tools.items()}
        return offered

    def call(
        self,
        server: McpServer,
        name: str,
        args: dict[str, Any],
        key: str,
        cancelled: Callable[[], bool],
        owner: TaskOwner = NO_OWNER,
    ) -> tuple[Any, tuple[Media, ...]]:
        """Return the result of the tool with this short name, and the files in it. Raise UsageError for any failure.

        A call that may have reached the server is never repeated. `key` is sent as `_meta` of the request.
        """
        self.check(server)
        own_name = self._own_names.get(server.cache_key, {}).get(name, name)
        connection = self._connection(server, owner)
        result, media = result_of(connection.call(own_name, args, key, cancelled))
        return CredentialMask(connection.masker()).mask_json(result), media

    def close(self) -> None:
        """End every session, and every process that was started for one."""
        with self._lock:
            connections, self._connections = [*self._connections.values()], {}
        for connection in connections:
            connection.close()
        until = time.monotonic() + _CLOSE_TIMEOUT
        for connection in connections:
            connection.wait_closed(until)

    def check(self, server: McpServer) -> None:
        """Raise UsageError if the server is not allowed on this worker, or the package is not installed."""
        check_allowed(server, self._allowed, self._variables)
        connection_class()

    def _connection(self, server: McpServer, owner: TaskOwner) -> Any:
        """Return the connection of the server; one of the owner's if the server gets a secret of the owner."""
        tenant = TaskOwner(owner.tenant)
        whose = {"user": owner, "tenant": tenant}.get(str(server.auth), tenant if server.credentials else NO_OWNER)
        with self._lock:
            if len(self._connections) >= MAX_CONNECTIONS:
                self._connections = {key: one for key, one in self._connections.items() if not one.is_idle}
            key = (server.cache_key, whose)
            if key not in self._connections:
                asks = self._get_token is not None and isinstance(server.auth, str)
                get_token = _import_function(str(self._get_token)) if asks else None
                get_credential = partial(self._credentials.get_async, owner.tenant, new=True)
                access = (self._tokens, get_token, whose, get_credential)
                self._connections[key] = connection_class()(
                    server, self._loop, self._idle_timeout, self._confinement, access
                )
            return self._connections[key]


def check_allowed(server: McpServer, allowed: tuple[str, ...], allowed_variables: tuple[str, ...]) -> None:
    """Raise UsageError unless an entry allows the server.

    For a server that is started, an entry must be its whole command line; otherwise its address or a prefix of it.
    `allowed_variables` are the variables of the worker that servers may get; the server may name no other.
    """
    if forbidden := sorted({*server.variables} - set(allowed_variables)):
        raise UsageError(
            f"MCP server {server.location!r} must not get variable {forbidden[0]} of this worker: name it in "
            "mcp_env of ROBOCO_ALLOWLIST to allow it"
        )
    if server.command is not None:
        permitted = shlex.join(server.command) in allowed
    else:
        permitted = any(covers(entry, server.url or "") for entry in allowed)
    issuer = server.auth.issuer if isinstance(server.auth, ClientCredentials) else ""
    if issuer and not any(covers(entry, issuer) for entry in allowed):
        raise UsageError(
            f"issuer {issuer!r} of MCP server {server.location!r} is not allowed on this worker: name its address in "
            "mcp_servers of ROBOCO_ALLOWLIST to allow it"
        )
    if not permitted:
        remedy = "command line" if server.command is not None else "address, or the beginning of it,"
        raise UsageError(
            f"MCP server {server.location!r} is not allowed on this worker: name its {remedy} in "
            "mcp_servers of ROBOCO_ALLOWLIST to allow it"
        )


def _import_function(name: str) -> Callable[..., str]:
    try:
        found: Callable[..., str] = pkgutil.resolve_name(name)
    except (ImportError, AttributeError, ValueError) as error:
        raise UsageError(f"ROBOCO_MCP_TOKENS: {name!r} cannot be imported on this worker: {error}") from error
    return found


@lru_cache(maxsize=1)
def connection_class() -> Any:
    """Return the class McpConnection. Raise UsageError if the `mcp` package is not installed.

    Its import takes 0.7 s and 30 MB; clients and coordinators never need it.
    """
    try:
        return importlib.import_module("roboco.tools.mcp.connection").McpConnection
    except ImportError as error:
        raise UsageError(f"MCP servers need the extra 'roboco[mcp]': install it on this worker ({error})") from error
