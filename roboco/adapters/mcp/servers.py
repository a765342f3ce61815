"""McpServers: the MCP servers that this process is connected to, their tools, and calls of these tools."""

import os
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from roboco.adapters.mcp.allowlist import check_allowed
from roboco.adapters.mcp.client_session import McpClient, SessionExpired, check_installed, open_session
from roboco.adapters.mcp.confinement import Confinement
from roboco.adapters.mcp.tool import ListedTools, McpTool, apply_team_settings, unreachable_tool
from roboco.adapters.model.loop_thread import LoopThread
from roboco.domain.team.mcp_server import McpServer
from roboco.errors import UsageError

RETRY_DELAY = 5.0
"""Seconds for which a failed discovery is cached."""
IDLE_TIMEOUT = 60.0
"""Seconds after which an unused session is ended."""
_NEVER = float("-inf")
_CLOSE_TIMEOUT = 5.0


@dataclass
class _ServerState:
    """The state of one server in this process."""

    discovering: threading.Lock = field(default_factory=threading.Lock)
    session: McpClient | None = None
    tools: dict[str, McpTool] | None = None
    listed_at: float = _NEVER
    failed_at: float = _NEVER
    failure: str = "it did not answer in time"
    changes: int = 0

    def invalidate(self) -> None:
        """Invalidate the listed tools."""
        self.changes += 1
        self.listed_at = _NEVER


class McpServers:
    """Sessions with MCP servers. Safe for threads; a forked process starts without sessions.

    A server is started or contacted at its first use.

    `allowed`: command lines as `shlex.join` writes them, and addresses, which also allow all addresses below them.
    `variables`: variables of this process that servers may get. `confinement`: the confinement of servers that are
    started. `cache_lifetime`: seconds for which a list of tools is cached.
    """

    def __init__(
        self,
        allowed: tuple[str, ...],
        variables: tuple[str, ...] = (),
        *,
        confinement: Confinement = Confinement(),  # noqa: B008 - immutable
        cache_lifetime: float = 300.0,
        retry_delay: float = RETRY_DELAY,
        idle_timeout: float = IDLE_TIMEOUT,
    ) -> None:
        self._allowed = allowed
        self._variables = variables
        self._confinement = confinement
        self._cache_lifetime = cache_lifetime
        self._retry_delay = retry_delay
        self._idle_timeout = idle_timeout
        self.reset()
        _INSTANCES.add(self)

    def reset(self) -> None:
        """Forget every server without contacting it: after a fork, the parent still uses the sessions."""
        self._lock = threading.Lock()
        self._loop = LoopThread()
        self._states: dict[str, _ServerState] = {}

    def tools(self, server: McpServer) -> dict[str, McpTool]:
        """Return the tools that the team may use and the server has, by the server's names.

        Raise UsageError if the server is not allowed. Takes at most `connect_timeout`. While the server is down, its
        last known tools are returned. If it was never reached, its tools accept any object, and their descriptions say
        why.
        """
        self.check(server)
        state = self._state_of(server)
        if not self._is_fresh(state):
            until = time.monotonic() + server.connect_timeout
            if state.discovering.acquire(timeout=server.connect_timeout):
                try:
                    if not self._is_fresh(state):
                        self._discover(server, state, until)
                finally:
                    state.discovering.release()
        found = state.tools
        if found is None:
            found = {name: unreachable_tool(state.failure) for name in server.named_tools}
        return {name: apply_team_settings(server, name, tool) for name, tool in found.items()}

    def list_tools_now(self, server: McpServer) -> ListedTools:
        """Return the server's current tools, with the effects and descriptions that the team declares.

        Raise UsageError if it does not respond. Takes at most `connect_timeout`.
        """
        self.check(server)
        state = self._state_of(server)
        found = self._list_tools(server, state, time.monotonic() + server.connect_timeout)
        tools = {name: apply_team_settings(server, name, tool) for name, tool in found.tools.items()}
        return replace(found, tools=tools)

    def call(self, server: McpServer, name: str, args: dict[str, Any], key: str, cancelled: Callable[[], bool]) -> Any:
        """Return the tool's result in JSON, as `result_json` makes it. Raise UsageError for any failure.

        A call that may have reached the server is never repeated. `key` is sent as `_meta` of the request.
        """
        self.check(server)
        if server.settings_of(name) is None:
            raise UsageError(
                f"tool {name!r} of MCP server {server.location!r} is not among those that the team may use"
            )
        state = self._state_of(server)
        try:
            return self._session(server, state).call(name, args, key, cancelled)
        except SessionExpired:
            pass
        try:
            return self._session(server, state).call(name, args, key, cancelled)
        except SessionExpired:
            raise UsageError(f"MCP server {server.location!r} ended the session before the call was sent") from None

    def close(self) -> None:
        """End every session, and every process that was started for one."""
        with self._lock:
            sessions = [known.session for known in self._states.values() if known.session is not None]
            self._states = {}
        for session in sessions:
            session.close()
        until = time.monotonic() + _CLOSE_TIMEOUT
        for session in sessions:
            session.wait_closed(until)

    def check(self, server: McpServer) -> None:
        """Raise UsageError if the server is not allowed on this worker, or the package is not installed."""
        check_allowed(server, self._allowed, self._variables)
        check_installed()

    def _state_of(self, server: McpServer) -> _ServerState:
        with self._lock:
            return self._states.setdefault(server.cache_key, _ServerState())

    def _is_fresh(self, state: _ServerState) -> bool:
        """Return True if the cached tools, or a cached failure, are recent enough to use."""
        now = time.monotonic()
        return now - state.listed_at < self._cache_lifetime or now - state.failed_at < self._retry_delay

    def _discover(self, server: McpServer, state: _ServerState, until: float) -> None:
        changes = state.changes
        try:
            tools = self._list_tools(server, state, until).tools
        except UsageError as failure:
            state.failure = str(failure)
            state.failed_at = time.monotonic()
            return
        state.tools = tools
        state.failed_at = _NEVER
        state.listed_at = time.monotonic() if state.changes == changes else _NEVER

    def _list_tools(self, server: McpServer, state: _ServerState, until: float) -> ListedTools:
        try:
            return self._session(server, state).tools(until)
        except SessionExpired:
            pass
        try:
            return self._session(server, state).tools(until)
        except SessionExpired:
            raise UsageError(f"MCP server {server.location!r} ended the session") from None

    def _session(self, server: McpServer, state: _ServerState) -> McpClient:
        """Return the cached session, or a new one."""
        with self._lock:
            if state.session is None or state.session.ended:
                state.session = open_session(
                    server, self._loop, self._idle_timeout, state.invalidate, self._confinement
                )
            return state.session


_INSTANCES: "weakref.WeakSet[McpServers]" = weakref.WeakSet()


def _reset_all() -> None:
    for servers in list(_INSTANCES):
        servers.reset()


os.register_at_fork(after_in_child=_reset_all)
