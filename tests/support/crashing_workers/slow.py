"""roboco.workers.coordinator that hangs on a message with SLOW in its id, and ignores the time limit on one with DEAF.

Its limits are short: one second until the soft time limit, two more until its process is killed.
"""

import time
from typing import Any

from celery.exceptions import SoftTimeLimitExceeded

from roboco.workers import tasks

vars(tasks)["HARD_LIMIT_GRACE"] = 2.0
take = vars(tasks)["handle"]
look = vars(tasks)["engine_advance"]


def slow(engine: Any, settings: Any, name: str, arguments: dict[str, Any], item_id: str) -> None:
    """Handle the message, or hang."""
    _wait(str(arguments.get("task_id")))
    take(engine, settings, name, arguments, item_id)


def slow_look(engine: Any, task_id: str) -> None:
    """Advance the task, or hang."""
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
