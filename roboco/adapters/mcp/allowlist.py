"""The operator's allowlist of MCP servers: a team file alone can neither start a process nor reach an address."""

import shlex

from roboco.domain.team.mcp_server import ClientCredentials, McpServer
from roboco.domain.url import covers
from roboco.errors import UsageError


def check_allowed(server: McpServer, allowed: tuple[str, ...], allowed_variables: tuple[str, ...]) -> None:
    """Raise UsageError unless an entry allows the server.

    For a server that is started, an entry must be its whole command line; otherwise its address or a prefix of it.
    `allowed_variables` are the variables of the worker that servers may get; the server may name no other.
    """
    if forbidden := sorted({*server.variables} - set(allowed_variables)):
        raise UsageError(
            f"MCP server {server.location!r} must not get variable {forbidden[0]} of this worker: name it in "
            "ROBOCO_ALLOWED_MCP_ENV to allow it"
        )
    if server.command is not None:
        permitted = shlex.join(server.command) in allowed
    else:
        permitted = any(covers(entry, server.url or "") for entry in allowed)
    issuer = server.auth.issuer if isinstance(server.auth, ClientCredentials) else ""
    if issuer and not any(covers(entry, issuer) for entry in allowed):
        raise UsageError(
            f"issuer {issuer!r} of MCP server {server.location!r} is not allowed on this worker: name its address in "
            "ROBOCO_ALLOWED_MCP_SERVERS to allow it"
        )
    if not permitted:
        remedy = "command line" if server.command is not None else "address, or the beginning of it,"
        raise UsageError(
            f"MCP server {server.location!r} is not allowed on this worker: name its {remedy} in "
            "ROBOCO_ALLOWED_MCP_SERVERS to allow it"
        )
