"""The application of test_consumer.py: `celery -A tests.integration.broker.consumer_app worker`.

What its Celery tasks do is seen in files: the broker is killed and flushed.
"""

import json
import os
import time
from pathlib import Path
from typing import Any

from celery.worker.request import Request
from redis import Redis

from roboco.adapters.celery.app import app_settings, create_app
from roboco.adapters.celery.names import AGENTS_QUEUE, TOOL_TASK, TURN_TASK
from roboco.adapters.celery.transport import guard_transports

BROKER = os.environ["CONSUMER_APP_BROKER"]
FOLDER = Path(os.environ["CONSUMER_APP_FOLDER"])


def note(name: str, line: str) -> None:
    with (FOLDER / name).open("a") as file:
        file.write(f"{line}\n")


def keep(record: dict[str, Any]) -> None:
    if (FOLDER / "refuse").exists():
        note("refused", record["time"])
        raise ConnectionError("the dead list is away")
    with Redis.from_url(BROKER) as redis:
        redis.rpush("dead", json.dumps(record))


class Unforeseen(Request):
    """Fails in the worker's main process, in a way that no check foresaw: named by the message's id."""

    def __init__(self, message: Any, **options: Any) -> None:
        raise {"key": KeyError, "value": ValueError}[message.headers["id"]]("unforeseen")


# Two slots: stock Celery only exits when one is busy while the other waits for a message.
keys = tuple(filter(None, os.environ.get("CONSUMER_APP_KEYS", "").split(",")))
settings = app_settings(BROKER, pool=os.environ["CONSUMER_APP_POOL"], concurrency=2, sink=keep, keys=keys)
settings |= json.loads(os.environ["CONSUMER_APP_SETTINGS"])
guard_transports()
app = create_app(settings, [AGENTS_QUEUE])


@app.task(name=TURN_TASK)
def turn(mark: str) -> None:
    note("ran", mark)


@app.task(name="test.hold", acks_late=True)
def hold(mark: str) -> None:
    note("ran", mark)
    deadline = time.monotonic() + 30
    while not (FOLDER / "release").exists() and time.monotonic() < deadline:
        time.sleep(0.02)


@app.task(name="test.unforeseen", Request=f"{__name__}:Unforeseen")
def unforeseen() -> None:
    note("ran", "unforeseen")


@app.task(name=TOOL_TASK)
def tool(**order: Any) -> None:
    note("ran", "a tool")
