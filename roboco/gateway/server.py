"""server: run an application in uvicorn.

address ─► socket (in use: UsageError) ─► announce ─► one process, or --workers processes that share the socket
SIGTERM ─► streams end at an event ─► GRACE_SECONDS for open requests ─► exit, at the latest after EXIT_SECONDS
"""

import logging
import os
import socket
import sys
from collections.abc import Callable
from functools import partial
from typing import Final

import uvicorn
from fastapi import FastAPI
from uvicorn.supervisors import Multiprocess

from roboco.errors import UsageError
from roboco.gateway.bounded_http import BoundedHttpProtocol
from roboco.gateway.closing import EXIT_SECONDS
from roboco.gateway.origin import is_loopback
from roboco.gateway.settings import load_gateway_settings
from roboco.settings import load_settings
from roboco.telemetry.gateway_metrics import GatewayMetrics
from roboco.telemetry.json_log import JsonFormatter
from roboco.telemetry.redaction import Redactor

GRACE_SECONDS: Final = 3
"""Seconds that open requests have after SIGTERM."""
BACKLOG: Final = 2048
"""Connections that wait to be accepted."""
MAX_UNREAD_SECONDS: Final = 120
"""Seconds for which a client takes nothing of what waits for it. Linux ends its connection then."""


def run_server(
    create_app: Callable[..., FastAPI], host: str, port: int, workers: int, announce: Callable[[str], None]
) -> None:
    """Serve until SIGTERM or SIGINT. Call `announce` with the first lines for the operator once the socket listens.

    Each process calls `create_app` once, with `exit_seconds` and `metrics`.
    Raise UsageError if the address cannot be used, if it is public and requests need no key, or if the metrics cannot
    be served.
    """
    authentication = load_gateway_settings().authentication
    if not authentication and not is_loopback(host):
        raise UsageError(
            f"--host {host}: without authentication the gateway listens on this machine alone; "
            "leave ROBOCO_GATEWAY_AUTHENTICATION out, and create a key with `roboco keys create`"
        )
    metrics = open_metrics(workers)
    config = uvicorn.Config(
        partial(_build_app, create_app, metrics),
        factory=True,
        workers=workers,
        timeout_graceful_shutdown=GRACE_SECONDS,
        server_header=False,
        access_log=False,
        log_config=None,
        lifespan="on",
        http=BoundedHttpProtocol,
        ws="none",
    )
    log_to_stderr()
    with listen(host, port) as listening:
        announce(greeting(listening, authentication))
        if workers == 1:
            uvicorn.Server(config).run([listening])
        else:
            Multiprocess(config, [listening]).run()


def _build_app(create_app: Callable[..., FastAPI], metrics: GatewayMetrics | None) -> FastAPI:
    """Return the application of one process of `roboco serve`."""
    log_to_stderr()
    return create_app(exit_seconds=EXIT_SECONDS, metrics=metrics)


def log_to_stderr() -> None:
    """Send the log of this process to stderr, a JSON object in each line. Those of the two loggers are JSON already."""
    lines = logging.StreamHandler(sys.stderr)
    for logger in map(logging.getLogger, ("roboco.access", "roboco.audit")):
        logger.handlers, logger.propagate = [lines], False
        logger.setLevel(logging.INFO)
    others = logging.StreamHandler(sys.stderr)
    others.setFormatter(JsonFormatter(Redactor(os.environ)))
    root = logging.getLogger()
    root.handlers = [others]
    root.setLevel(logging.WARNING)


def open_metrics(workers: int) -> GatewayMetrics | None:
    """Serve metrics at ROBOCO_METRICS_PORT, and return them, or None without that setting.

    Raise UsageError if the port is not available, and with several processes, which would each want the port.
    """
    settings = load_settings()
    if not settings.metrics_port:
        return None
    if workers > 1:
        raise UsageError(
            f"ROBOCO_METRICS_PORT={settings.metrics_port} with --workers {workers}: a port has the metrics of one "
            "process; start several gateways with --workers 1 and a port each, or unset ROBOCO_METRICS_PORT"
        )
    metrics = GatewayMetrics()
    metrics.serve(settings.metrics_address, settings.metrics_port)
    return metrics


def greeting(listening: socket.socket, authentication: bool) -> str:
    """Return the address, whether requests need a key, and the first request to try."""
    host, port = listening.getsockname()[:2]
    here = f"http://{_reachable(host)}:{port}"
    lines = [f"roboco serve listens on {here}"]
    if authentication:
        lines += ["authentication is on: `roboco keys create NAME` makes a key"]
        lines += [f"try: curl -H 'Authorization: Bearer KEY' {here}/v1/me"]
        if not is_loopback(host):
            lines += ["put a proxy with TLS in front: keys travel in the clear otherwise"]
    else:
        lines += ["authentication is off: every program of this machine may do everything", f"try: curl {here}/v1/me"]
    return "\n".join(lines)


def _reachable(host: str) -> str:
    """Return the host as an address that a client on this machine can use."""
    named = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - the address is replaced
    return f"[{named}]" if ":" in named else named


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket that child processes inherit.

    A client that reads nothing could keep the connections of responses and streams that have ended long ago.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(MAX_UNREAD_SECONDS * 1000))
        listening.bind(address)
        listening.listen(BACKLOG)
    except OSError as error:
        raise UsageError(f"--host {host} --port {port} cannot be used: {error.strerror}; choose another one") from error
    listening.set_inheritable(True)
    return listening
