"""The transport to an MCP server: the environment of its command, or the headers of its address."""

import os
import re
import shutil
from contextlib import AbstractAsyncContextManager

from roboco.adapters.mcp.confinement import Confinement
from roboco.adapters.mcp.http import http_streams
from roboco.adapters.mcp.stdio import stdio_streams
from roboco.adapters.mcp.streams import MessageStreams
from roboco.domain.team.mcp_server import McpServer
from roboco.errors import UsageError

_INHERITED_VARIABLES = ("HOME", "PATH")
_HEADER_VALUE = re.compile(r"[\x21-\x7e]([\x20-\x7e\t]*[\x21-\x7e])?")


class McpTransport:
    """The streams to a server, with the secrets that they need. Raises UsageError if a secret is not set."""

    def __init__(self, server: McpServer, confinement: Confinement) -> None:
        self._server = server
        self._confinement = confinement
        self._environment = {name: required_variable(name) for name in server.env}
        self._headers = {header: _header_value(name) for header, name in server.headers.items()}
        if server.command is not None and shutil.which(server.command[0]) is None:
            raise UsageError(f"program {server.command[0]!r} is not installed on this worker")

    @property
    def secrets(self) -> tuple[str, ...]:
        """Return the values that must not appear in messages and logs."""
        return (*self._environment.values(), *self._headers.values())

    def streams(self) -> AbstractAsyncContextManager[MessageStreams]:
        """Return the context that opens the streams."""
        server = self._server
        if server.command is not None:
            inherited = {name: os.environ[name] for name in _INHERITED_VARIABLES if name in os.environ}
            environment = self._confinement.environment({**inherited, **self._environment})
            return stdio_streams(self._confinement.command(server.command), environment)
        return http_streams(server.url or "", self._headers, server.connect_timeout, server.timeout)


def required_variable(variable: str) -> str:
    """Return the value of the worker's variable. Raise UsageError if it has none."""
    value = os.environ.get(variable)
    if not value:
        raise UsageError(f"environment variable {variable!r} is not set on this worker")
    return value


def _header_value(variable: str) -> str:
    value = required_variable(variable)
    if not _HEADER_VALUE.fullmatch(value):
        raise UsageError(
            f"environment variable {variable!r} has characters that a header cannot contain, perhaps a final line break"
        )
    return value
