"""Streams: the messages from and to an MCP server."""

from dataclasses import dataclass
from typing import Any

import anyio

MAX_MESSAGE = 16 * 1024 * 1024
"""The largest message of a server that is read, in bytes."""


@dataclass(frozen=True)
class Streams:
    """Both directions, as a session of the package takes them; `gone` is set once the server is known to be lost."""

    read: Any
    write: Any
    gone: anyio.Event
