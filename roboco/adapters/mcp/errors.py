"""Why an MCP server failed, as a short text that holds no secret."""

from collections.abc import Iterable

from mcp import MCPError
from mcp_types import CONNECTION_CLOSED, INVALID_PARAMS, METHOD_NOT_FOUND
from pydantic import ValidationError

from roboco.errors import UsageError

_SHOWN = 500
_SHORTEST_SECRET = 4
_LOST = ("Connection closed", "SSE stream")


def reason(error: BaseException, secrets: Iterable[str] = ()) -> str:
    """Return what went wrong, in a line. Every secret is covered before the line is cut."""
    match first_of(error):
        case UsageError() as ours:
            return str(ours)
        case TimeoutError():
            return "it did not answer in time"
        case MCPError() as told if is_lost(told):
            return "the connection was lost"
        case MCPError() as told:
            return without(secrets, told.message)[:_SHOWN]
        case ValidationError():
            return "its answer does not follow the protocol"
        case other:
            return f"{type(other).__name__}: {without(secrets, str(other))[:_SHOWN]}"


def first_of(error: BaseException) -> BaseException:
    """The error itself, or the first one in a group."""
    return first_of(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


def is_lost(error: MCPError) -> bool:
    """Whether no answer can come any more; servers use the same code for errors of their own."""
    return error.code == CONNECTION_CLOSED and error.message.startswith(_LOST)


def means_unknown(error: MCPError) -> bool:
    """Whether the server may no longer have the tool as it was listed."""
    return error.code in (INVALID_PARAMS, METHOD_NOT_FOUND)


def without(secrets: Iterable[str], text: str) -> str:
    """The text with every secret covered: servers repeat what they were sent."""
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= _SHORTEST_SECRET:
            text = text.replace(secret, "***")
    return text
