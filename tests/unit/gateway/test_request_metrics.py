"""Metrics of requests: bounded labels, streams that are open, and responses that never start."""

import asyncio
from collections.abc import AsyncGenerator

import pytest
from fastapi import APIRouter, FastAPI
from fastapi.testclient import TestClient
from starlette.responses import StreamingResponse

from roboco.gateway.request_log import RequestLogMiddleware
from roboco.telemetry.gateway_metrics import GatewayMetrics

REQUESTS, STREAMS = "roboco_gateway_requests_total", "roboco_gateway_open_streams"


@pytest.fixture
def metrics() -> GatewayMetrics:
    return GatewayMetrics()


@pytest.fixture
def client(metrics: GatewayMetrics) -> TestClient:
    app, router = FastAPI(), APIRouter(prefix="/v1")

    @router.get("/tasks/{task_id}")
    async def task(task_id: str) -> str:
        if task_id == "broken":
            raise RuntimeError
        return task_id

    @router.get("/events")
    async def events() -> StreamingResponse:
        async def frames() -> AsyncGenerator[str, None]:
            yield f"data: {value(metrics, STREAMS)}\n\n"

        return StreamingResponse(frames(), media_type="text/event-stream")

    @app.get("/healthz")
    async def healthz() -> str:
        return "ok"

    app.include_router(router)
    app.add_middleware(RequestLogMiddleware, closing=asyncio.Event(), metrics=metrics)
    return TestClient(app, raise_server_exceptions=False)


def value(metrics: GatewayMetrics, name: str, **labels: str) -> float:
    """Return the value of a metric, or 0 if it has none."""
    return metrics.registry.get_sample_value(name, labels) or 0.0


def test_a_request_is_counted_by_its_route_and_not_by_its_ids(client: TestClient, metrics: GatewayMetrics) -> None:
    for task_id in ("a", "b"):
        client.get(f"/v1/tasks/{task_id}")
    assert value(metrics, REQUESTS, method="GET", route="/v1/tasks/{task_id}", status="200") == 2
    assert value(metrics, "roboco_gateway_response_seconds_count", route="/v1/tasks/{task_id}") == 2


def test_a_stream_is_open_while_its_client_reads(client: TestClient, metrics: GatewayMetrics) -> None:
    assert client.get("/v1/events").text == "data: 1.0\n\n"
    assert value(metrics, STREAMS) == 0
    assert value(metrics, REQUESTS, method="GET", route="/v1/events", status="200") == 1


def test_invented_paths_and_methods_make_no_new_series(client: TestClient, metrics: GatewayMetrics) -> None:
    for number in range(3):
        client.request(f"BREW{number}", f"/{number}")
    assert value(metrics, REQUESTS, method="other", route="none", status="404") == 3
