"""app: the ASGI application.

request ─► middleware ─► route of a protocol ─► Caller (401) ─► scope, tenant (403, 404) ─► client library ─► answer
                                                                  line full, deadline (503) ◄─┘
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

from roboco.client.orchestrator import Orchestrator
from roboco.errors import RobocoError
from roboco.gateway import health, sign_in
from roboco.gateway.access import AccessMiddleware
from roboco.gateway.bodies.body_budget import LargeBodies
from roboco.gateway.closing import set_at_signals
from roboco.gateway.gateway import Gateway
from roboco.gateway.openai import catalog, chat, responses
from roboco.gateway.origin_check import OriginMiddleware
from roboco.gateway.problem import Problem, problem_of, problem_response
from roboco.gateway.request_log import RequestLogMiddleware
from roboco.gateway.request_metrics import MetricsMiddleware
from roboco.gateway.rest.openapi import describe
from roboco.gateway.rest.routes import router as rest_router
from roboco.gateway.roboto import agents, sessions
from roboco.gateway.settings import GatewaySettings, load_gateway_settings
from roboco.gateway.streams import routes as stream_routes
from roboco.gateway.streams.handover import StreamHandover
from roboco.gateway.web import routes as web_routes
from roboco.telemetry.gateway_metrics import GatewayMetrics

READABLE_HEADERS: Final = (
    *("Content-Disposition", "Content-Range", "ETag", "Location"),
    *("RateLimit", "RateLimit-Policy", "Retry-After", "X-Request-Id"),
)
"""Headers of a response that a page of another origin may read."""


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

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None, None]:
        web_routes.load_assets()
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
    app.add_middleware(OriginMiddleware, settings=gateway.settings)
    if gateway.settings.cors_origins:
        app.add_middleware(
            CORSMiddleware,  # without credentials: a page sends a key in a header, and its browser no cookie
            allow_origins=gateway.settings.cors_origins,
            allow_methods=["*"],
            allow_headers=["*"],
            expose_headers=READABLE_HEADERS,
        )
    app.add_middleware(RequestLogMiddleware, closing=gateway.closing)
    if metrics is not None:
        app.add_middleware(MetricsMiddleware, metrics=metrics)  # outside of the log, so that it sees every response
    app.include_router(web_routes.router)
    app.include_router(sign_in.router)
    app.include_router(health.router)
    app.include_router(rest_router)
    app.include_router(stream_routes.router)
    app.include_router(sessions.router)
    app.include_router(agents.router)  # the last one of /v1/ai: it refuses all other paths
    for part in (catalog, chat, responses):
        app.include_router(part.router)
    describe(app)
    app.add_exception_handler(Problem, _on_problem)
    app.add_exception_handler(RobocoError, _on_problem)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(HTTPException, _on_http_error)
    app.add_exception_handler(Exception, _on_failure)
    return app


async def _on_problem(_: Request, error: Exception) -> Response:
    assert isinstance(error, Problem | RobocoError)
    return problem_response(error if isinstance(error, Problem) else problem_of(error))


async def _on_invalid(_: Request, error: Exception) -> Response:
    """Return 422 with the place and the problem of each mistake, and without the values, which may be secrets."""
    assert isinstance(error, RequestValidationError)
    mistakes = [{"at": ".".join(map(str, wrong["loc"])), "problem": wrong["msg"]} for wrong in error.errors()[:20]]
    detail = "; ".join(f"{mistake['at']}: {mistake['problem']}" for mistake in mistakes)
    problem = Problem(422, "invalid", detail)
    problem.extra["mistakes"] = mistakes
    return problem_response(problem)


async def _on_failure(_: Request, error: Exception) -> Response:
    """Return 500 for an error that no route expects. Starlette raises it again, so that the server logs it."""
    return problem_response(Problem(500, "internal", f"the gateway failed: {type(error).__name__}"))


async def _on_http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    codes = {404: "not_found", 405: "method_not_allowed", 413: "too_large"}
    code = codes.get(error.status_code, "invalid")
    return problem_response(Problem(error.status_code, code, str(error.detail), headers=error.headers))
