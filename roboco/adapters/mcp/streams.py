"""The message streams from and to an MCP server."""

from dataclasses import dataclass, field
from typing import Any

import anyio

from roboco.adapters.mcp.exit import Exit

MAX_MESSAGE = 16 * 1024 * 1024
"""Maximum size of a message of a server, in bytes."""


@dataclass(frozen=True)
class Streams:
    """Both directions, as a session of the package takes them; `gone` is set once the server is known to be lost.

    `exit` is the exit of the server's process, which is known once the streams are closed.
    """

    read: Any
    write: Any
    gone: anyio.Event
    exit: Exit = field(default_factory=Exit)
