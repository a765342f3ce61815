"""routes: the MCP server at `/mcp`, by streamable HTTP without sessions, and its metadata for OAuth.

    request ─► AccessMiddleware ─► caller (401 names the metadata) ─► MCP's transport ─► `task_extension.py`

No session is kept, so that any gateway process answers any request.
"""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, cast

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.auth import ProtectedResourceMetadata
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from roboco.errors import RobocoError
from roboco.gateway.access import MAX_BODY
from roboco.gateway.bodies.body_budget import PIECE_BYTES, BodyBudget, pieces_of
from roboco.gateway.gateway import Gateway, base_url
from roboco.gateway.mcp.task_extension import mcp_server
from roboco.gateway.mcp.team_tools import Context
from roboco.gateway.principal import ACCESS, Principal
from roboco.gateway.problem import Problem, not_found, problem_of, problem_response, unavailable
from roboco.gateway.request_log import LoggedRoute

_log = logging.getLogger(__name__)
PATH = "/mcp"
METADATA = "/.well-known/oauth-protected-resource"


async def _caller(ctx: Context) -> Principal:
    access: Any = cast(Request, ctx.request).scope[ACCESS]
    caller: Principal = await access.caller()
    return caller


class _Sending:
    """Sends a response. Its large events, which clients before 2026-07-28 get, count as large bodies do.

    If too many wait, or the key of the caller ends, the response ends without a result, which is an error for clients.
    """

    def __init__(self, budget: BodyBudget, caller: Principal, send: Send) -> None:
        self._budget = budget
        self._caller = caller
        self._send = send
        self._is_cut = False

    async def __call__(self, message: Message) -> None:
        if self._is_cut:
            return
        try:
            await self._send_whole(message)
        except Problem as problem:
            self._is_cut = True
            _log.warning("a response to an MCP client, %s, is cut off: %s", self._caller.by, problem.detail)
            await self._send({"type": "http.response.body", "body": b""})

    async def _send_whole(self, message: Message) -> None:
        body = message.get("body", b"")
        if len(body) <= PIECE_BYTES or not message.get("more_body"):
            await self._send(message)
            return
        with self._budget.hold(self._caller.owner, len(body)):
            for piece in pieces_of(body, goes_on=True):
                await self._send(piece)


class McpEndpoint:
    """The endpoint of an application. It serves requests while `running` is entered."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._manager: StreamableHTTPSessionManager | None = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve requests inside the block."""
        # The names and origins of requests are checked before, by AccessMiddleware.
        security = TransportSecuritySettings(enable_dns_rebinding_protection=False)
        self._manager = StreamableHTTPSessionManager(  # it can run once
            mcp_server(self._gateway, _caller),
            stateless=True,
            security_settings=security,
            max_request_body_size=MAX_BODY,
        )
        async with self._manager.run():
            yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request of an MCP client whose caller is known."""
        try:
            caller = await scope[ACCESS].caller()
        except (Problem, RobocoError) as error:
            problem = error if isinstance(error, Problem) else problem_of(error)
            if problem.status == 401 and self._gateway.settings.oidc_issuer is not None:
                address = f"{base_url(Request(scope))}{METADATA}{PATH}"
                problem.headers["WWW-Authenticate"] = f'Bearer resource_metadata="{address}"'
            await problem_response(problem)(scope, receive, send)
            return
        if self._manager is None:
            await problem_response(unavailable("the lifespan of the application does not run"))(scope, receive, send)
            return
        scope["headers"] = [(name, value.strip()) for name, value in scope["headers"]]  # not every server strips them
        with suppress(ClientDisconnect):
            await self._manager.handle_request(scope, receive, _Sending(self._gateway.bodies, caller, send))

    async def metadata(self, request: Request) -> Response:
        """Return where tokens for the endpoint come from, as RFC 9728 has it. Raise 404 without an OIDC provider."""
        issuer = self._gateway.settings.oidc_issuer
        if issuer is None:
            return problem_response(not_found("no OIDC provider is set up", "send a key of `roboco keys create`"))
        document = ProtectedResourceMetadata.model_validate(
            {"resource": f"{base_url(request)}{PATH}", "authorization_servers": [issuer], "resource_name": "Roboco"}
        )
        return JSONResponse(document.model_dump(mode="json", exclude_none=True))

    def routes(self) -> list[Route]:
        """Return the routes. A GET would open a stream on which nothing is ever sent."""
        places = (METADATA, METADATA + PATH)
        endpoint = LoggedRoute(PATH, self, methods=["POST"], name="mcp")
        return [endpoint, *(LoggedRoute(one, self.metadata) for one in places)]
