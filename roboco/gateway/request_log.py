"""request_log: the id, the security headers, the log lines and the metrics of each request.

    request ─► id (the client's X-Request-Id, if it is well formed) ─► application ─► response with id and headers
                                                                        ├── roboco.access: one line for each response
                                                                        ├── roboco.audit: one for each write
                                                                        └── metrics, with ROBOCO_METRICS_PORT
The lines hold no key, no cookie, no query and no body. An unexpected error becomes 500 and a line with its traceback.
The label `route` of metrics is the path with the names of its variables, such as `/v1/tasks/{task_id}`. It holds no id
of a client, so the number of its values is that of the routes.
"""

import asyncio
import json
import logging
import re
import time
import uuid
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Final

from starlette.datastructures import MutableHeaders
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from roboco.client.audit import IN_REQUEST
from roboco.gateway.origin import HEALTH_PATHS, SAFE_METHODS, path_of
from roboco.gateway.principal import ACCESS, Principal
from roboco.gateway.problem import Problem, problem_response, unavailable
from roboco.telemetry.gateway_metrics import GatewayMetrics

REQUEST_ID: Final = "roboco.request_id"
"""The field of an ASGI scope with the id of the request."""
SECURITY_HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Headers of responses that do not set them."""
CREATED: Final = "roboco.created"
"""The field of an ASGI scope with the task that the request creates."""
_OPERATION: Final = "roboco.operation"
METHODS: Final = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
_STREAMS: Final = ("text/event-stream", "application/x-ndjson")
MAX_PATH: Final = 300
"""Characters of a path in a log line."""
_ID: Final = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_current: ContextVar[Scope] = ContextVar("roboco_request")
_access = logging.getLogger("roboco.access")
_audit = logging.getLogger("roboco.audit")
_log = logging.getLogger("roboco.gateway")


class RequestLogMiddleware:
    """The outermost middleware."""

    def __init__(self, app: ASGIApp, closing: asyncio.Event, metrics: GatewayMetrics | None = None) -> None:
        self._app = app
        self._closing = closing
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve an ASGI request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope[REQUEST_ID] = request_id_of(scope)
        _current.set(scope)
        IN_REQUEST.set(scope[REQUEST_ID])
        answer = LoggedResponse(scope, send, self._metrics)
        try:
            await self._app(scope, receive, answer.send)
        except asyncio.CancelledError:
            if not self._closing.is_set():
                raise
            if not answer.status:  # else the server closes the connection of the unfinished response
                await problem_response(unavailable("the gateway is about to exit"))(scope, receive, answer.send)
        except Exception:
            _log.exception("request %s failed", scope[REQUEST_ID])
            if answer.status:
                raise  # the server closes the connection: no client takes the part for the whole
            problem = Problem(500, "internal", "an unexpected error", f"give the operator the id {scope[REQUEST_ID]}")
            await problem_response(problem)(scope, receive, answer.send)
        finally:
            if path_of(scope) not in HEALTH_PATHS:
                answer.record()


class LoggedResponse:
    """The response to a request: its status and size, and the time that it has taken."""

    def __init__(self, scope: Scope, send: Send, metrics: GatewayMetrics | None) -> None:
        self._scope = scope
        self._send = send
        self._metrics = None if path_of(scope) in HEALTH_PATHS else metrics
        self._is_stream = False
        self._began = time.perf_counter()
        self._bytes = 0
        self.status = 0

    async def send(self, message: Message) -> None:
        """Send a message of the response, the first one with the id and the security headers."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            headers["X-Request-Id"] = self._scope[REQUEST_ID]
            for name, value in SECURITY_HEADERS.items():
                headers.setdefault(name, value)
            self._log_write()
            if self._metrics is not None:
                self._metrics.responded(_route(self._scope), time.perf_counter() - self._began)
                self._is_stream = headers.get("content-type", "").startswith(_STREAMS)
                if self._is_stream:
                    self._metrics.stream_opened()
        else:
            self._bytes += len(message.get("body", b""))
        await self._send(message)

    def record(self) -> None:
        """Write the line of the access log, and count the request."""
        if self._metrics is not None:
            if self._is_stream:
                self._metrics.stream_closed()
            method = self._scope["method"] if self._scope["method"] in METHODS else "other"
            self._metrics.ended(method, _route(self._scope), self.status)
        if not _access.isEnabledFor(logging.INFO):
            return
        peer = self._scope.get("client") or ("", 0)
        line = _facts(self._scope) | {
            "method": self._scope["method"],
            "path": path_of(self._scope)[:MAX_PATH],
            "status": self.status,
            "bytes": self._bytes,
            "ms": round((time.perf_counter() - self._began) * 1000, 1),
            "client": peer[0],
        }
        _access.info(json.dumps(line))

    def _log_write(self) -> None:
        """Write the line of the audit log, if the request may change something."""
        if self._scope["method"] in SAFE_METHODS:
            return
        line = _facts(self._scope) | {
            "action": _action(self._scope),
            "task": self._scope.get("path_params", {}).get("task_id"),
            "created": self._scope.get(CREATED),
            "path": path_of(self._scope)[:MAX_PATH],
            "status": self.status,
            "outcome": outcome_of(self.status),
        }
        _audit.info(json.dumps(line | self._scope.get(_OPERATION, {})))


class LoggedRoute(Route):
    """A route whose path is in the metrics, and whose name in the audit log, as those of FastAPI are."""

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        scope["route"] = self
        await super().handle(scope, receive, send)


def outcome_of(status: int) -> str:
    """Return how the audit log names a request that ends with this status."""
    return "accepted" if status < 400 else "refused" if status < 500 else "failed"


def log_task_control(scope: Scope, action: str, task_id: str | None, outcome: str) -> None:
    """Write a line of the audit log for a task that a request controls, with the outcome."""
    line = _facts(scope) | {"action": action, "task": task_id, "path": path_of(scope)[:MAX_PATH], "outcome": outcome}
    _audit.info(json.dumps(line))


def _facts(scope: Scope) -> dict[str, Any]:
    caller = caller_of(scope)
    return {
        "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "request": scope[REQUEST_ID],
        "by": None if caller is None else caller.by,
        "tenant": None if caller is None else caller.tenant,
    }


def record_created(task_id: str) -> None:
    """Name the task that the current request is about to create in its line of the audit log."""
    if (scope := _current.get(None)) is not None:
        scope[CREATED] = task_id


def record_operation(**named: str) -> None:
    """Name the `task`, the `action` or the `outcome` of the current request, which its path and status do not.

    The first name counts: what was accepted stays so, whatever becomes of the answer.
    """
    if (scope := _current.get(None)) is not None:
        scope[_OPERATION] = named | scope.get(_OPERATION, {})


def caller_of(scope: Scope) -> Principal | None:
    """Return the caller of a request, or None if it is not known."""
    signed_in: Principal | None = scope.get("roboco.by")
    access: Any = scope.get(ACCESS)
    return signed_in if signed_in is not None or access is None else access.principal


def request_id_of(scope: Scope) -> str:
    """Return the client's id of a request if it has exactly one that is well formed, else a new one."""
    given = [value for name, value in scope["headers"] if name == b"x-request-id"]
    return given[0].decode() if len(given) == 1 and _ID.fullmatch(given[0]) else uuid.uuid4().hex


def _route(scope: Scope) -> str:
    """Return the path of the route of a request, without values of its variables, or "none" before it is known."""
    return getattr(scope.get("route"), "path", None) or "none"


def _action(scope: Scope) -> str:
    """Return the name of the route, such as `create_task`, or the method if there is no route."""
    name = getattr(scope.get("route"), "name", None)
    return str(name or scope["method"])
