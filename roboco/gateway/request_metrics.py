"""request_metrics: the metrics of each request, whatever its protocol. Only with ROBOCO_METRICS_PORT.

    request ─► application ─► response starts ─► ... ─► ends, or its client has gone
                               ├── seconds, by route     ├── counted by method, route and status
                               └── a stream is open      └── the stream is closed

The label `route` is the path with the names of its variables, such as `/v1/tasks/{task_id}`. It holds no id of a
client, so the number of its values is that of the routes.
"""

import time
from typing import Any, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from roboco.gateway.origin import HEALTH_PATHS, path_of
from roboco.telemetry.gateway_metrics import GatewayMetrics

NO_ROUTE: Final = "none"
"""The route of a request whose path names none, or that was refused before its route was known."""
METHODS: Final = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
OTHER_METHOD: Final = "other"
"""The method of a request with another one than METHODS, which a client can invent."""
_STREAMS: Final = (b"text/event-stream", b"application/x-ndjson")


class MetricsMiddleware:
    """Records each request, except those that ask for the process's health."""

    def __init__(self, app: ASGIApp, metrics: GatewayMetrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve an ASGI request."""
        if scope["type"] != "http" or path_of(scope) in HEALTH_PATHS:
            await self._app(scope, receive, send)
            return
        began, status, is_stream = time.perf_counter(), 0, False

        async def send_recorded(message: Message) -> None:
            nonlocal status, is_stream
            if message["type"] == "http.response.start":
                status = message["status"]
                self._metrics.responded(route_of(scope), time.perf_counter() - began)
                is_stream = _is_stream(message)
                if is_stream:
                    self._metrics.stream_opened()
            await send(message)

        try:
            await self._app(scope, receive, send_recorded)
        finally:
            if is_stream:
                self._metrics.stream_closed()
            method = scope["method"] if scope["method"] in METHODS else OTHER_METHOD
            self._metrics.ended(method, route_of(scope), status)


def route_of(scope: Scope) -> str:
    """Return the path of the route of a request, without values of its variables."""
    path: Any = getattr(scope.get("route"), "path", None)
    return path if isinstance(path, str) and path else NO_ROUTE


def _is_stream(start: Message) -> bool:
    kind = next((value for name, value in start.get("headers", ()) if name.lower() == b"content-type"), b"")
    return bool(kind.startswith(_STREAMS))
