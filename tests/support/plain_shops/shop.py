"""The shop's worker: `celery -A tests.support.plain_shops.shop worker`. It imports nothing of Roboco."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from celery import Celery
from celery.exceptions import Ignore, Reject

FOLDER = Path(os.environ["TEST_FOLDER"])
app = Celery("docs", broker=os.environ["SHOP_URL"], backend=os.environ.get("SHOP_RESULTS") or None)
app.conf.update(
    worker_concurrency=2,
    task_default_queue="parsing",
    task_create_missing_queues=False,
    broker_connection_retry_on_startup=True,
    task_serializer="yaml",  # its own messages: answers are JSON nevertheless
    accept_content=["json", "yaml"],
)


def note(line: str) -> None:
    """Add a line to the shop's record of its work."""
    with (FOLDER / "shop.txt").open("a") as file:
        file.write(f"{line}\n")


def _raise(error: Exception) -> Any:
    raise error


_ENDS: dict[str, Callable[[], Any]] = {
    "broken": lambda: _raise(ValueError("page 7 is missing")),
    "odd": lambda: {"file": object()},
    "large": lambda: {"text": "x" * (17 * 1024 * 1024)},
    "ignored": lambda: _raise(Ignore()),
    "rejected": lambda: _raise(Reject("no", requeue=False)),
    "killer": lambda: os.kill(os.getpid(), signal.SIGKILL),
}


@app.task(name="docs.parse", bind=True)
def parse(self: Any, file: str) -> Any:
    """Return the pages of the file, whose name says how its parsing ends."""
    note(f"parse {file} {self.request.id}")
    if file in _ENDS:
        return _ENDS[file]()
    while file == "slow" and not (FOLDER / "go").exists():
        time.sleep(0.01)
    return {"pages": 3, "file": file}


@app.task(name="docs.flaky", autoretry_for=(ConnectionError,), retry_kwargs={"countdown": 0})
def flaky(file: str) -> str:
    """Fail twice, then return the name of the file."""
    note(f"flaky {file}")
    if (FOLDER / "shop.txt").read_text().count(f"flaky {file}\n") < 3:
        raise ConnectionError("no answer")
    return f"read {file}"


@app.task(name="docs.durable", acks_late=True, reject_on_worker_lost=True)
def durable(file: str) -> str:
    """Kill its process the first time, and return then."""
    note(f"durable {file}")
    if (FOLDER / "shop.txt").read_text().count(f"durable {file}\n") < 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return f"kept {file}"
