"""Which MCP servers the operator of a worker allows: a team file alone starts no process and reaches no address."""

import shlex
from urllib.parse import SplitResult, urlsplit

from roboco.domain.mcp_server import McpServer, url_mistake
from roboco.errors import UsageError

_PORTS = {"http": 80, "https": 443}


def check_allowed(server: McpServer, allowed: tuple[str, ...], variables: tuple[str, ...]) -> None:
    """UsageError unless an entry is the server's whole command line, or leads to its address.

    The `variables` are those of the worker that servers may get.
    """
    if kept := sorted({*server.env, *server.headers.values()} - set(variables)):
        raise UsageError(
            f"MCP server {server.place!r} may not get the variable {kept[0]} of this worker: name it in ROBOCO_MCP_ENV "
            "to allow it"
        )
    if server.command is not None:
        permitted = shlex.join(server.command) in allowed
    else:
        permitted = any(_leads(entry, server.url or "") for entry in allowed)
    if not permitted:
        what = "command line" if server.command is not None else "address, or the beginning of it,"
        raise UsageError(
            f"MCP server {server.place!r} is not allowed on this worker: name its {what} in ROBOCO_MCP to allow it"
        )


def _leads(entry: str, url: str) -> bool:
    """Whether the address is the entry, or lies below it."""
    if url_mistake(entry) or url_mistake(url):
        return False
    above, below = urlsplit(entry), urlsplit(url)
    if _origin(above) != _origin(below):
        return False
    if above.query:
        return (above.path, above.query) == (below.path, below.query)
    folder = above.path.rstrip("/")
    return below.path.rstrip("/") == folder or below.path.startswith(f"{folder}/")


def _origin(parts: SplitResult) -> tuple[str, str | None, int | None]:
    return parts.scheme, parts.hostname, parts.port or _PORTS[parts.scheme]
