"""Tools of a shop that use Celery tasks of the shop."""

import os

from celery import Celery

from roboco import tool


@tool
def fetch_notes(topic: str) -> str:
    """Fetch the notes on a topic: wait for a Celery task of the shop."""
    url = os.environ["ROBOCO_REDIS_URL"]
    with Celery("client", broker=url, backend=url, set_as_current=False) as app:
        return str(app.send_task("shop.fetch", [topic]).get(timeout=30))
