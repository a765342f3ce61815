"""origin_check: the middleware that checks Host for each request, and without authentication also Origin."""

from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from roboco.gateway.origin import HEALTH_PATHS, check_host, check_origin, path_of
from roboco.gateway.problem import Problem, problem_response
from roboco.gateway.settings import GatewaySettings


class OriginMiddleware:
    """Refuses requests under a foreign name. Requests with a cookie are checked where the cookie is."""

    def __init__(self, app: ASGIApp, settings: GatewaySettings) -> None:
        self._app = app
        self._settings = settings
        self._hosts = frozenset(name.lower() for name in settings.allowed_hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve an ASGI request. The health of the process has no secrets, and probes name it by any address."""
        if scope["type"] == "http" and path_of(scope) not in HEALTH_PATHS:
            try:
                self._check(scope)
            except Problem as problem:
                await problem_response(problem)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _check(self, scope: Any) -> None:
        local_only = not self._settings.authentication
        check_host(scope, self._hosts, local_only)
        if local_only:
            check_origin(scope, self._settings.cors_origins)
