"""The message streams from and to an MCP server."""

from dataclasses import dataclass, field
from typing import Any

import anyio

from roboco.adapters.mcp.server_exit import ServerExit

MAX_MESSAGE_BYTES = 16 * 1024 * 1024
"""Maximum size of a message of a server, in bytes."""


@dataclass(frozen=True)
class MessageStreams:
    """Both directions, as a session of the package takes them; `gone` is set once the server is known to be lost.

    `exit` is the exit of the server's process, which is known once the streams are closed.
    """

    read: Any
    write: Any
    gone: anyio.Event
    exit: ServerExit = field(default_factory=ServerExit)
