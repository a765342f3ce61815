"""roboco.workers.coordinator, which takes too long for a message with SLOW in its id, and does not end with DEAF in it.

Its limits are short: a second until it is asked to end, and two more until its process is killed.
"""

import time
from typing import Any

from celery.exceptions import SoftTimeLimitExceeded

from roboco.workers import tasks

vars(tasks)["HARD_LIMIT_GRACE"] = 2.0
take = vars(tasks)["handle"]
look = vars(tasks)["engine_advance"]


def slow(engine: Any, settings: Any, name: str, arguments: dict[str, Any], item_id: str) -> None:
    """Take it in, or wait."""
    _wait(str(arguments.get("task_id")))
    take(engine, settings, name, arguments, item_id)


def slow_look(engine: Any, task_id: str) -> None:
    """Look at it, or wait."""
    _wait(task_id)
    look(engine, task_id)


def _wait(task_id: str) -> None:
    while "SLOW" in task_id:
        try:
            time.sleep(60)
        except SoftTimeLimitExceeded:
            if "DEAF" not in task_id:
                raise


vars(tasks)["handle"] = slow
vars(tasks)["engine_advance"] = slow_look

from roboco.workers.coordinator import app  # noqa: E402  # after the changes, which it registers

__all__ = ["app"]
