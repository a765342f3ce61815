"""Conversation: a kept session with an MCP server, made by the `mcp` package, which is loaded when it is first needed.

The package takes 0.7 s and 30 MB: producers and coordinators never need it.
"""

import importlib
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Protocol

from roboco.adapters.mcp.confined import Confinement
from roboco.adapters.mcp.tool import Offer
from roboco.adapters.model.loop_thread import LoopThread
from roboco.domain.team.mcp_server import McpServer
from roboco.errors import UsageError


class Stale(Exception):
    """The conversation had ended before the request reached the server, so it may be sent in a new one."""


class Conversation(Protocol):
    """One session, for any number of threads."""

    @property
    def ended(self) -> bool:
        """Whether nothing more can be asked."""

    def tools(self, until: float) -> Offer:
        """What the server lists, by its names; Stale, or UsageError for whatever went wrong."""

    def call(self, name: str, args: dict[str, Any], key: str, cancelled: Callable[[], bool]) -> Any:
        """The result of a call in JSON; Stale, or UsageError for whatever went wrong."""

    def close(self) -> None:
        """End it; twice is once."""

    def wait_closed(self, until: float) -> None:
        """Wait until it is over, up to this time of `time.monotonic`."""


def converse(
    server: McpServer, loop: LoopThread, idle: float, change: Callable[[], None], confinement: Confinement
) -> Conversation:
    """A new session; UsageError if the package is not installed."""
    conversation: Conversation = _session_class()(server, loop, idle, change, confinement)
    return conversation


def check_installed() -> None:
    """UsageError if the package is not installed."""
    _session_class()


@lru_cache(maxsize=1)
def _session_class() -> Any:
    try:
        return importlib.import_module("roboco.adapters.mcp.session").Session
    except ImportError as error:
        raise UsageError(f"MCP servers need the extra 'roboco[mcp]': install it on this worker ({error})") from error
