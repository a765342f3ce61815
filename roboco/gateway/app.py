"""app: the ASGI application.

request ─► middleware ─► route of a protocol ─► Caller (401) ─► scope, tenant (403, 404) ─► client library ─► answer
                                                                  line full, deadline (503) ◄─┘
"""

import logging
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.routing import Match

from roboco.client.orchestrator import Orchestrator
from roboco.errors import RobocoError
from roboco.gateway import health, sign_in
from roboco.gateway.access import AccessMiddleware
from roboco.gateway.agui import routes as agui
from roboco.gateway.ai_sdk import routes as ai_sdk
from roboco.gateway.bodies.body_budget import LargeBodies
from roboco.gateway.bodies.strict_json import StrictJsonRoute
from roboco.gateway.closing import set_at_signals
from roboco.gateway.gateway import Gateway
from roboco.gateway.openai import catalog, chat, conversations, responses
from roboco.gateway.openai.problems import OPENAI, problem_of_validation, response_at
from roboco.gateway.origin import path_of
from roboco.gateway.problem import Problem, forbidden, problem_of, problem_response
from roboco.gateway.request_log import METHODS, RequestLogMiddleware
from roboco.gateway.rest import (
    bulk,
    comparisons,
    controls,
    files,
    operations,
    records,
    removal,
    tasks,
    teams,
    usage,
)
from roboco.gateway.rest.openapi import describe
from roboco.gateway.rest.parameters import refuse_unknown_parameters
from roboco.gateway.roboto import agents, sessions
from roboco.gateway.roboto.errors import RobotoRoute, error_response
from roboco.gateway.settings import GatewaySettings, load_gateway_settings
from roboco.gateway.streams import routes as stream_routes
from roboco.gateway.streams.live_response import StreamHandover
from roboco.gateway.web import routes as web_routes
from roboco.process.extras import missing_packages
from roboco.telemetry.gateway_metrics import GatewayMetrics

_log = logging.getLogger(__name__)


class Cors(CORSMiddleware):
    """Allows pages of the origins of ROBOCO_GATEWAY_CORS_ORIGINS. Browsers show the remedy of a refusal."""

    def preflight_response(self, request_headers: Headers) -> Response:
        """Return the answer to a browser's question whether a page may send its request."""
        origin = request_headers["origin"][:200]
        if self.is_allowed_origin(origin):
            return super().preflight_response(request_headers)
        _log.warning("a page of %r was refused: ROBOCO_GATEWAY_CORS_ORIGINS does not list its origin", origin)
        remedy = f"an operator adds {origin} to ROBOCO_GATEWAY_CORS_ORIGINS"
        return problem_response(forbidden(f"pages of {origin} may not call this gateway", remedy))


def create_app(
    orchestrator: Orchestrator | None = None,
    settings: GatewaySettings | None = None,
    exit_seconds: float | None = None,
    metrics: GatewayMetrics | None = None,
) -> FastAPI:
    """Return the application. It connects to nothing before its first request.

    `orchestrator` is a client without a tenant, by default that of the environment; the application closes it at its
    end. `settings` are by default those of the environment. With `exit_seconds` the process ends that many seconds
    after SIGTERM in any case. `metrics` counts requests and streams. Raises UsageError if a setting is wrong.

    Mount it in another application with `shop.mount("/roboco", gateway)`, and run its lifespan in that of the shop:
    `async with gateway.router.lifespan_context(gateway): yield`. Without it streams do not end at SIGTERM.
    """
    gateway = Gateway(orchestrator or Orchestrator(), settings or load_gateway_settings())

    endpoint = None if missing_packages("mcp") else _mcp_endpoint(gateway)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None, None]:
        web_routes.load_assets()
        async with AsyncExitStack() as stack:
            if endpoint is not None:
                await stack.enter_async_context(endpoint.running())
            with set_at_signals(gateway.closing, exit_seconds):
                yield
        gateway.closing.set()
        gateway.close()

    app = FastAPI(
        title="Roboco",
        version="1",
        lifespan=lifespan,
        openapi_url=None,  # `describe` serves it
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,  # the address would have the host that the client names
    )
    app.state.gateway = gateway
    app.add_middleware(StreamHandover)  # the first one is the innermost
    app.add_middleware(LargeBodies, budget=gateway.bodies)
    app.add_middleware(AccessMiddleware, gateway=gateway)
    app.add_middleware(
        Cors,  # such a page sends a key in a header: browsers send it no cookie
        allow_origins=gateway.settings.cors_origins,
        allow_methods=["*"],
        allow_headers=["*"],
        expose_headers=["*"],
    )
    app.add_middleware(RequestLogMiddleware, closing=gateway.closing, metrics=metrics)
    ours = (web_routes.router, sign_in.router, health.router, _rest_router(), stream_routes.router)
    others = (ai_sdk, agui, sessions, agents)  # agents refuses all other paths of /v1/ai
    for router in (*ours, *(part.router for part in (*others, catalog, chat, conversations, responses))):
        app.include_router(router)
    describe(app)
    app.router.routes.extend([] if endpoint is None else endpoint.routes())
    app.router.routes.extend([] if missing_packages("a2a") else _a2a_routes())
    for kind in (Problem, RobocoError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, _on_error)
    return app


def _rest_router() -> APIRouter:
    """Return the routes of the REST API, below `/v1`. Each operation has the name of its function as its id."""
    router = APIRouter(
        route_class=StrictJsonRoute,
        prefix="/v1",
        generate_unique_id_function=lambda route: route.name,
        dependencies=[Depends(refuse_unknown_parameters)],
    )
    for part in (teams, tasks, comparisons, controls, records, files, operations, removal, bulk, usage):
        router.include_router(part.router)
    router.include_router(controls.calls_router)
    return router


def _mcp_endpoint(gateway: Gateway) -> Any:
    """Return the endpoint of MCP clients, whose package is an extra."""
    from roboco.gateway.mcp.routes import McpEndpoint

    return McpEndpoint(gateway)


def _a2a_routes() -> Any:
    """Return the routes of A2A clients, whose package is an extra."""
    from roboco.gateway.a2a.routes import routes

    return routes()


async def _on_error(request: Request, error: Exception) -> Response:
    """Return the error of a route in the shape of the API to which the route belongs."""
    route, path = request.scope.get("route"), path_of(request.scope)
    if isinstance(error, RequestValidationError) and path.startswith(OPENAI):
        return response_at(path, problem_of_validation(error, request))
    problem = problem_of(error)
    if isinstance(route, RobotoRoute):
        return error_response(problem, route.repeatable)
    unknown = isinstance(error, HTTPException) and error.status_code == 404
    if problem.code == "method_not_allowed" and isinstance(error, HTTPException):
        problem.headers["Allow"] = ", ".join(
            method for method in sorted(METHODS - {"OPTIONS"}) if _serves(request, method)
        )
    return response_at(path, problem, unknown)


def _serves(request: Request, method: str) -> bool:
    """Return True if a route answers the method at this path. Starlette names the methods of one route alone."""
    scope = {**request.scope, "method": method}
    return any(route.matches(scope)[0] is Match.FULL for route in request.app.router.routes)
