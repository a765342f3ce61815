"""A shop: a user's Celery application with its own Celery tasks, in which Roboco is installed."""

import os
import time
from pathlib import Path
from typing import Any

from celery import Celery

from roboco import Settings
from roboco.celery import install

VISIBILITY_TIMEOUT = 4242
"""Seconds of the shop's own visibility timeout."""


def shop_app(url: str, settings: Settings | None = None, results: str | None = None) -> Celery:
    """Return the shop's application. It keeps messages and results in one Redis database, or results in `results`."""
    app = Celery("shop", broker=url, backend=results or url, set_as_current=False)
    app.conf.update(
        worker_concurrency=1,
        broker_connection_retry_on_startup=True,
        worker_hijack_root_logger=False,
    )
    if url.startswith("redis"):
        app.conf.broker_transport_options = {"visibility_timeout": VISIBILITY_TIMEOUT}
    _register(app)
    install(app, settings)
    return app


def _register(app: Celery) -> None:
    @app.task(name="shop.fetch", shared=False)
    def fetch(topic: str) -> str:
        return f"notes on {topic}"

    @app.task(name="shop.publish", shared=False)
    def publish(text: Any) -> Any:
        note(f"published {text}")
        return {"published": text}

    @app.task(name="shop.complain", shared=False)
    def complain(celery_id: str) -> None:
        note(f"complained {celery_id}")

    @app.task(name="shop.explain", shared=False)
    def explain(request: Any, error: Exception, traceback: str | None) -> None:
        note(f"explained {request.id}: {error}")

    @app.task(name="shop.hear", shared=False)
    def hear(notice: dict[str, Any]) -> None:
        note(f"heard {notice['data']['status']} of {notice['data']['task_id']}: {notice['data']['text']}")

    @app.task(name="shop.nap", acks_late=True, shared=False)
    def nap(until: str) -> None:
        """Wait until a file of this name exists."""
        note("napping")
        while not (Path(os.environ["TEST_FOLDER"]) / until).exists():
            time.sleep(0.01)


def note(line: str) -> None:
    """Add a line to the shop's record of its work."""
    with (Path(os.environ["TEST_FOLDER"]) / "shop.txt").open("a") as file:
        file.write(f"{line}\n")
