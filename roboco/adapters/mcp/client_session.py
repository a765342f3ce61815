"""The port of an MCP session, and its construction by the `mcp` package, which is imported at the first use.

The import takes 0.7 s and 30 MB. Clients and coordinators never need it.
"""

import importlib
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Protocol

from roboco.adapters.mcp.confinement import Confinement
from roboco.adapters.mcp.tool import ListedTools
from roboco.adapters.model.loop_thread import LoopThread
from roboco.domain.team.mcp_server import McpServer
from roboco.errors import UsageError


class SessionExpired(Exception):
    """The session ended before the request reached the server, so the request may be sent in a new session."""


class McpClient(Protocol):
    """A session with one MCP server, for any number of threads."""

    @property
    def ended(self) -> bool:
        """Return True if the session accepts no more requests."""

    def tools(self, until: float) -> ListedTools:
        """Return the tools that the server lists, by its own names.

        Raise SessionExpired, or UsageError for any other failure.
        """

    def call(self, name: str, args: dict[str, Any], key: str, cancelled: Callable[[], bool]) -> Any:
        """Return the result of a call in JSON. Raise SessionExpired, or UsageError for any other failure."""

    def close(self) -> None:
        """End the session. Idempotent."""

    def wait_closed(self, until: float) -> None:
        """Wait until the session has ended, at most until this time of `time.monotonic`."""


def open_session(
    server: McpServer, loop: LoopThread, idle_timeout: float, on_change: Callable[[], None], confinement: Confinement
) -> McpClient:
    """Return a new session. Raise UsageError if the package is not installed."""
    client: McpClient = _session_class()(server, loop, idle_timeout, on_change, confinement)
    return client


def check_installed() -> None:
    """Raise UsageError if the package is not installed."""
    _session_class()


@lru_cache(maxsize=1)
def _session_class() -> Any:
    try:
        return importlib.import_module("roboco.adapters.mcp.session").McpSession
    except ImportError as error:
        raise UsageError(f"MCP servers need the extra 'roboco[mcp]': install it on this worker ({error})") from error
