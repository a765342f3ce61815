"""Failures of MCP servers as short texts without secrets."""

from collections.abc import Iterable

from mcp import MCPError
from mcp_types import CONNECTION_CLOSED, INVALID_PARAMS, METHOD_NOT_FOUND
from pydantic import ValidationError

from roboco.errors import UsageError

_MAX_SHOWN_CHARS = 500
_MIN_SECRET_CHARS = 4
_CONNECTION_LOST_TEXTS = ("Connection closed", "SSE stream")


def failure_reason(error: BaseException, secrets: Iterable[str] = ()) -> str:
    """Return the cause of the failure in one line. Every secret is masked before the line is truncated."""
    match first_error(error):
        case UsageError() as usage_error:
            return str(usage_error)
        case TimeoutError():
            return "it did not answer in time"
        case MCPError() as mcp_error if is_connection_lost(mcp_error):
            return "the connection was lost"
        case MCPError() as mcp_error:
            return mask_secrets(secrets, mcp_error.message)[:_MAX_SHOWN_CHARS]
        case ValidationError():
            return "its answer does not follow the protocol"
        case other:
            return f"{type(other).__name__}: {mask_secrets(secrets, str(other))[:_MAX_SHOWN_CHARS]}"


def first_error(error: BaseException) -> BaseException:
    """Return the error itself, or the first error of a group."""
    return first_error(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


def is_connection_lost(error: MCPError) -> bool:
    """Return True if no response can arrive any more. Servers use the same code for errors of their own."""
    return error.code == CONNECTION_CLOSED and error.message.startswith(_CONNECTION_LOST_TEXTS)


def means_unknown_tool(error: MCPError) -> bool:
    """Return True if the server may no longer have the tool as it was listed."""
    return error.code in (INVALID_PARAMS, METHOD_NOT_FOUND)


def mask_secrets(secrets: Iterable[str], text: str) -> str:
    """Return the text with every secret masked: servers repeat what they receive."""
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= _MIN_SECRET_CHARS:
            text = text.replace(secret, "***")
    return text
