"""Failures of MCP servers as short texts without secrets."""

from collections.abc import Iterable

from mcp import MCPError
from mcp_types import CONNECTION_CLOSED, INVALID_PARAMS, METHOD_NOT_FOUND
from pydantic import ValidationError

from roboco.errors import UsageError

_SHOWN = 500
_SHORTEST_SECRET = 4
_LOST = ("Connection closed", "SSE stream")


def reason(error: BaseException, secrets: Iterable[str] = ()) -> str:
    """Return the cause of the failure in one line. Every secret is masked before the line is truncated."""
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
    """Return the error itself, or the first error of a group."""
    return first_of(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


def is_lost(error: MCPError) -> bool:
    """Return True if no response can arrive any more. Servers use the same code for errors of their own."""
    return error.code == CONNECTION_CLOSED and error.message.startswith(_LOST)


def means_unknown(error: MCPError) -> bool:
    """Return True if the server may no longer have the tool as it was listed."""
    return error.code in (INVALID_PARAMS, METHOD_NOT_FOUND)


def without(secrets: Iterable[str], text: str) -> str:
    """Return the text with every secret masked: servers repeat what they receive."""
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= _SHORTEST_SECRET:
            text = text.replace(secret, "***")
    return text
