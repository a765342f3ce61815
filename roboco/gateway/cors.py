"""cors: web pages of other origins that the operator allows. Without ROBOCO_GATEWAY_CORS_ORIGINS there are none.

Such a page sends a key in a header. Browsers send it no cookie: `Access-Control-Allow-Credentials` is never set.
"""

from typing import Any, Final

METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
REQUEST_HEADERS: Final = (
    "Accept",
    "Authorization",
    "Content-Type",
    "Idempotency-Key",
    "If-Match",
    "If-None-Match",
    "If-Range",
    "Last-Event-ID",
    "Mcp-Protocol-Version",
    "Mcp-Session-Id",
    "OpenAI-Beta",
    "OpenAI-Organization",
    "OpenAI-Project",
    "Range",
    "X-API-Key",
    "X-Request-Id",
    "X-Roboto-Api-Version",
    "X-Roboto-Org-Id",
    "X-Roboto-Requester",
    "X-Stainless-Arch",
    "X-Stainless-Async",
    "X-Stainless-Helper-Method",
    "X-Stainless-Lang",
    "X-Stainless-OS",
    "X-Stainless-Package-Version",
    "X-Stainless-Poll-Helper",
    "X-Stainless-Custom-Poll-Interval",
    "X-Stainless-Read-Timeout",
    "X-Stainless-Retry-Count",
    "X-Stainless-Runtime",
    "X-Stainless-Runtime-Version",
    "X-Stainless-Timeout",
)
"""Headers that a page may send, those of the OpenAI and roboto packages included."""
RESPONSE_HEADERS: Final = (
    "Content-Disposition",
    "Content-Location",
    "Content-Range",
    "ETag",
    "Location",
    "Mcp-Session-Id",
    "RateLimit",
    "RateLimit-Policy",
    "Retry-After",
    "X-Request-Id",
    "X-Vercel-AI-UI-Message-Stream",
)
"""Headers of a response that a page may read."""
MAX_AGE: Final = 600
"""Seconds for which a browser remembers the answer to its question."""


def cors_options(origins: tuple[str, ...]) -> dict[str, Any]:
    """Return the options of Starlette's CORSMiddleware."""
    return {
        "allow_origins": list(origins),
        "allow_methods": list(METHODS),
        "allow_headers": list(REQUEST_HEADERS),
        "expose_headers": list(RESPONSE_HEADERS),
        "allow_credentials": False,
        "max_age": MAX_AGE,
    }
