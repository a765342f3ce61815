"""`roboco serve`: the HTTP gateway."""

import importlib
from typing import Any

import click

from roboco import gateway
from roboco.process.extras import require_extra


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=8080, show_default=True, type=click.IntRange(0, 65535), help="Port; 0 is any.")
@click.option("--workers", default=1, show_default=True, type=click.IntRange(1, 64), help="Number of processes.")
def serve(host: str, port: int, workers: int) -> None:
    """Serve HTTP: start, follow, steer and stop tasks.

    Clients of any language use the same workers. Requests need a key (roboco keys create), or a token of an OIDC
    provider. The settings are ROBOCO_GATEWAY_*.
    """
    require_extra("gateway", "roboco serve")
    server: Any = importlib.import_module("roboco.gateway.server")  # which imports the packages of the extra
    server.run_server(gateway.create_app, host, port, workers, announce=lambda text: click.echo(text))
