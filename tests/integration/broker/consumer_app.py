"""The application of test_consumer.py: `celery -A tests.integration.broker.consumer_app worker`.

Its Celery tasks write files, since the tests kill and flush the broker.
"""

import json
import os
import time
from pathlib import Path
from typing import Any

from celery.worker.request import Request
from redis import Redis

from roboco.broker.app import app_settings, create_app
from roboco.broker.names import AGENTS_QUEUE, TOOL_TASK, TURN_TASK
from roboco.broker.transport import guard_transports
from roboco.domain.dead_letter import DeadLetter

BROKER = os.environ["CONSUMER_APP_BROKER"]
FOLDER = Path(os.environ["CONSUMER_APP_FOLDER"])


def append_line(name: str, line: str) -> None:
    with (FOLDER / name).open("a") as file:
        file.write(f"{line}\n")


def store_dead_letter(letter: DeadLetter) -> None:
    if (FOLDER / "refuse").exists():
        append_line("refused", str(letter.time))
        raise ConnectionError("the sink for dead letters is down")
    with Redis.from_url(BROKER) as redis:
        redis.rpush("dead", letter.model_dump_json())


class UnforeseenRequest(Request):
    """A request that fails in the worker's main process, with the error that the message's id names."""

    def __init__(self, message: Any, **options: Any) -> None:
        raise {"key": KeyError, "value": ValueError}[message.headers["id"]]("unforeseen")


# Two slots: the stock consumer exits only if one is busy while the other waits for a message.
keys = tuple(filter(None, os.environ.get("CONSUMER_APP_KEYS", "").split(",")))
settings = app_settings(BROKER, pool=os.environ["CONSUMER_APP_POOL"], concurrency=2, sink=store_dead_letter, keys=keys)
if settings["worker_pool"] == "threads":
    settings["roboco_prefetch"] = 4  # as in the agents pool
settings |= json.loads(os.environ["CONSUMER_APP_SETTINGS"])
guard_transports()
app = create_app(settings, [AGENTS_QUEUE])


@app.task(name=TURN_TASK)
def turn(mark: str) -> None:
    append_line("ran", mark)


@app.task(name="test.hold", acks_late=True)
def hold(mark: str) -> None:
    append_line("ran", mark)
    deadline = time.monotonic() + 180
    while not (FOLDER / "release").exists() and time.monotonic() < deadline:
        time.sleep(0.02)


@app.task(name="test.unforeseen", Request=f"{__name__}:UnforeseenRequest")
def unforeseen() -> None:
    append_line("ran", "unforeseen")


@app.task(name=TOOL_TASK)
def tool(**order: Any) -> None:
    append_line("ran", "a tool")
