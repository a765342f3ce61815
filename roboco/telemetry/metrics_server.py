"""The HTTP server of a worker's metrics: http://HOST:PORT/metrics."""

import os
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, start_http_server

from roboco.errors import UsageError


def serve_metrics(registry: CollectorRegistry, address: str, port: int) -> WSGIServer:
    """Serve the metrics from a thread of this process, until it ends. Raise UsageError if the port is not available.

    A child that is forked later closes the port, because its parent may start again before the child has ended.
    """
    try:
        server, _ = start_http_server(port, address, registry)
    except (OSError, OverflowError) as error:
        raise UsageError(
            f"metrics cannot be served at {address}:{port}: {error}; set ROBOCO_METRICS_PORT to a free port for each "
            "worker of a machine, and ROBOCO_METRICS_ADDRESS to an address of it"
        ) from error
    os.register_at_fork(after_in_child=server.socket.close)
    return server
