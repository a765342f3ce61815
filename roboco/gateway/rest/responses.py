"""responses: the problems of routes, for the OpenAPI document."""

from typing import Any, Final

_DESCRIPTIONS: Final = {
    304: "The client has this content: the entity tag in If-None-Match is the current one.",
    400: "The request contradicts itself, the team or the task.",
    401: "The request has no valid key or token.",
    403: "The key lacks a scope.",
    404: "There is nothing of this name that the key reaches.",
    408: "The client sends its body too slowly.",
    409: "The task has ended, or other content is stored already.",
    410: "The task was erased.",
    413: "The body is too large.",
    416: "The file has no byte of the requested range.",
    422: "The request is not valid: `mistakes` lists the places.",
    429: "Too many requests, or too much work waits. Retry-After names the seconds to wait.",
    500: "The stored data, or the gateway, is broken. An operator must act.",
    503: "Redis or the store does not answer. Retry-After names the seconds to wait.",
}
_ALWAYS: Final = (400, 401, 403, 413, 422, 429, 500, 503)
STREAMED: Final[dict[int | str, dict[str, Any]]] = {200: {"content": {"text/event-stream": {"schema": {}}}}}
"""The response of a route that answers with a stream. Tools read the schema as that of an event."""
_RETRY_AFTER: Final = {"Retry-After": {"description": "Seconds to wait.", "schema": {"type": "string"}}}


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the responses of a route that may fail with these statuses, and with those that every route may have.

    A task that does not exist may have been erased.
    """
    erased = (410,) if 404 in statuses else ()
    return {status: _problem(status) for status in sorted({*statuses, *erased, *_ALWAYS})}


def readable(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the responses of a route that reads: problems, and 304."""
    return {304: {"description": _DESCRIPTIONS[304]}, **problems(*statuses)}


def _problem(status: int) -> dict[str, Any]:
    found: dict[str, Any] = {
        "description": _DESCRIPTIONS[status],
        "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/ProblemDocument"}}},
    }
    return found | ({"headers": _RETRY_AFTER} if status in (429, 503) else {})
