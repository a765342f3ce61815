"""The metrics of one process of the HTTP gateway, for Prometheus."""

from typing import Final

from roboco.ports.telemetry import MetricSpec
from roboco.telemetry.metrics import Metrics, serve_metrics

_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

REQUESTS: Final = MetricSpec(
    "roboco_gateway_requests_total",
    "Requests to the gateway, by method, route and status. Status 0 is a client that has gone before its response.",
    "counter",
    ("method", "route", "status"),
)
RESPONSE_SECONDS: Final = MetricSpec(
    "roboco_gateway_response_seconds",
    "From a request until its response starts. A stream starts at once.",
    "histogram",
    ("route",),
    _BUCKETS,
)
OPEN_STREAMS: Final = MetricSpec("roboco_gateway_open_streams", "Streams that clients of the gateway follow.", "gauge")
GATEWAY_METRICS: Final = (REQUESTS, RESPONSE_SECONDS, OPEN_STREAMS)


class GatewayMetrics:
    """Counts the requests and streams of a process. No method waits."""

    def __init__(self) -> None:
        self._metrics = Metrics(GATEWAY_METRICS)
        self.registry = self._metrics.registry
        """The registry of `prometheus_client`, for an application that serves it itself."""

    def serve(self, address: str, port: int) -> None:
        """Serve http://ADDRESS:PORT/metrics from a thread. Raise UsageError if the port is not available."""
        serve_metrics(self.registry, address, port)

    def responded(self, route: str, seconds: float) -> None:
        """Record the time until a response started."""
        self._metrics.record(RESPONSE_SECONDS, seconds, route)

    def ended(self, method: str, route: str, status: int) -> None:
        """Count a request whose response has ended."""
        self._metrics.record(REQUESTS, 1, method, route, str(status))

    def stream_opened(self) -> None:
        """Count an open stream."""
        self._metrics.record(OPEN_STREAMS, 1)

    def stream_closed(self) -> None:
        """Stop counting an open stream."""
        self._metrics.record(OPEN_STREAMS, -1)
