"""Which MCP servers the operator of a worker allows: a team file alone starts no process and reaches no address."""

import shlex

from roboco.domain.team.mcp_server import McpServer
from roboco.domain.url import leads
from roboco.errors import UsageError


def check_allowed(server: McpServer, allowed: tuple[str, ...], variables: tuple[str, ...]) -> None:
    """UsageError unless an entry is the server's whole command line, or leads to its address.

    The `variables` are those of the worker that servers may get.
    """
    if kept := sorted({*server.env, *server.headers.values()} - set(variables)):
        raise UsageError(
            f"MCP server {server.place!r} may not get the variable {kept[0]} of this worker: name it in "
            "ROBOCO_ALLOWED_MCP_ENV to allow it"
        )
    if server.command is not None:
        permitted = shlex.join(server.command) in allowed
    else:
        permitted = any(leads(entry, server.url or "") for entry in allowed)
    if not permitted:
        what = "command line" if server.command is not None else "address, or the beginning of it,"
        raise UsageError(
            f"MCP server {server.place!r} is not allowed on this worker: name its {what} in "
            "ROBOCO_ALLOWED_MCP_SERVERS to allow it"
        )
