"""McpServers: the MCP servers that this process is connected to, their tools, and calls of these tools."""

import os
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from roboco.adapters.mcp.allowlist import check_allowed
from roboco.adapters.mcp.client_session import Conversation, Stale, check_installed, converse
from roboco.adapters.mcp.confined import Confinement
from roboco.adapters.mcp.tool import McpTool, Offer, as_team_says, unreachable
from roboco.adapters.model.loop_thread import LoopThread
from roboco.domain.team.mcp_server import McpServer
from roboco.errors import UsageError

PAUSE = 5.0
"""Seconds for which a failed discovery is cached."""
IDLE = 60.0
"""Seconds after which an unused session is ended."""
_NEVER = float("-inf")
_CLOSED = 5.0


@dataclass
class _Known:
    """The state of one server in this process."""

    discovering: threading.Lock = field(default_factory=threading.Lock)
    session: Conversation | None = None
    tools: dict[str, McpTool] | None = None
    listed: float = _NEVER
    failed: float = _NEVER
    why: str = "it did not answer in time"
    changes: int = 0

    def change(self) -> None:
        """Invalidate the listed tools."""
        self.changes += 1
        self.listed = _NEVER


class McpServers:
    """Sessions with MCP servers. Safe for threads; a forked process starts without sessions.

    A server is started or contacted at its first use.

    `allowed`: command lines as `shlex.join` writes them, and addresses, which also allow all addresses below them.
    `variables`: variables of this process that servers may get. `confinement`: the confinement of servers that are
    started. `lifetime`: seconds for which a list of tools is cached.
    """

    def __init__(
        self,
        allowed: tuple[str, ...],
        variables: tuple[str, ...] = (),
        *,
        confinement: Confinement = Confinement(),  # noqa: B008 - immutable
        lifetime: float = 300.0,
        pause: float = PAUSE,
        idle: float = IDLE,
    ) -> None:
        self._allowed = allowed
        self._variables = variables
        self._confinement = confinement
        self._lifetime = lifetime
        self._pause = pause
        self._idle = idle
        self.begin_anew()
        _ALL.add(self)

    def begin_anew(self) -> None:
        """Forget every server without contacting it: after a fork, the parent still uses the sessions."""
        self._lock = threading.Lock()
        self._loop = LoopThread()
        self._known: dict[str, _Known] = {}

    def tools(self, server: McpServer) -> dict[str, McpTool]:
        """Return the tools that the team may use and the server has, by the server's names.

        Raise UsageError if the server is not allowed. Takes at most `connect_timeout`. While the server is down, its
        last known tools are returned. If it was never reached, its tools accept any object, and their descriptions say
        why.
        """
        self.check(server)
        known = self._known_of(server)
        if not self._settled(known):
            until = time.monotonic() + server.connect_timeout
            if known.discovering.acquire(timeout=server.connect_timeout):
                try:
                    if not self._settled(known):
                        self._discover(server, known, until)
                finally:
                    known.discovering.release()
        found = known.tools
        if found is None:
            found = {name: unreachable(known.why) for name in server.named}
        return {name: as_team_says(server, name, tool) for name, tool in found.items()}

    def tools_now(self, server: McpServer) -> Offer:
        """Return the server's current tools, with the effects and descriptions that the team declares.

        Raise UsageError if it does not respond. Takes at most `connect_timeout`.
        """
        self.check(server)
        known = self._known_of(server)
        found = self._listed(server, known, time.monotonic() + server.connect_timeout)
        tools = {name: as_team_says(server, name, tool) for name, tool in found.tools.items()}
        return replace(found, tools=tools)

    def call(self, server: McpServer, name: str, args: dict[str, Any], key: str, cancelled: Callable[[], bool]) -> Any:
        """Return the tool's result in JSON, as `result_json` makes it. Raise UsageError for any failure.

        A call that may have reached the server is never repeated. `key` is sent as `_meta` of the request.
        """
        self.check(server)
        if server.settings_of(name) is None:
            raise UsageError(f"tool {name!r} of MCP server {server.place!r} is not among those that the team may use")
        known = self._known_of(server)
        try:
            return self._session(server, known).call(name, args, key, cancelled)
        except Stale:
            pass
        try:
            return self._session(server, known).call(name, args, key, cancelled)
        except Stale:
            raise UsageError(f"MCP server {server.place!r} ended the session before the call was sent") from None

    def close(self) -> None:
        """End every session, and every process that was started for one."""
        with self._lock:
            sessions = [known.session for known in self._known.values() if known.session is not None]
            self._known = {}
        for session in sessions:
            session.close()
        until = time.monotonic() + _CLOSED
        for session in sessions:
            session.wait_closed(until)

    def check(self, server: McpServer) -> None:
        """Raise UsageError if the server is not allowed on this worker, or the package is not installed."""
        check_allowed(server, self._allowed, self._variables)
        check_installed()

    def _known_of(self, server: McpServer) -> _Known:
        with self._lock:
            return self._known.setdefault(server.key, _Known())

    def _settled(self, known: _Known) -> bool:
        """Return True if the cached tools, or a cached failure, are recent enough to use."""
        now = time.monotonic()
        return now - known.listed < self._lifetime or now - known.failed < self._pause

    def _discover(self, server: McpServer, known: _Known, until: float) -> None:
        changes = known.changes
        try:
            tools = self._listed(server, known, until).tools
        except UsageError as failure:
            known.why = str(failure)
            known.failed = time.monotonic()
            return
        known.tools = tools
        known.failed = _NEVER
        known.listed = time.monotonic() if known.changes == changes else _NEVER

    def _listed(self, server: McpServer, known: _Known, until: float) -> Offer:
        try:
            return self._session(server, known).tools(until)
        except Stale:
            pass
        try:
            return self._session(server, known).tools(until)
        except Stale:
            raise UsageError(f"MCP server {server.place!r} ended the session") from None

    def _session(self, server: McpServer, known: _Known) -> Conversation:
        """Return the cached session, or a new one."""
        with self._lock:
            if known.session is None or known.session.ended:
                known.session = converse(server, self._loop, self._idle, known.change, self._confinement)
            return known.session


_ALL: "weakref.WeakSet[McpServers]" = weakref.WeakSet()


def _begin_anew() -> None:
    for servers in list(_ALL):
        servers.begin_anew()


os.register_at_fork(after_in_child=_begin_anew)
