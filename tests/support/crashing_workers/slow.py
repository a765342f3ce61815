"""roboco.workers.coordinator that hangs on a message with SLOW in its id, and ignores the time limit on one with DEAF.

Its limits are short: three seconds until the soft time limit, two more until its process is killed.
"""

import time
from typing import Any

from celery.exceptions import SoftTimeLimitExceeded

from roboco.workers import tasks

vars(tasks).update(COORDINATOR_TIMEOUT=3.0, HARD_LIMIT_GRACE=2.0)
handle = vars(tasks)["handle"]
advance = vars(tasks)["engine_advance"]


def handle_slowly(engine: Any, settings: Any, name: str, arguments: dict[str, Any], item_id: str) -> None:
    """Handle the message, or hang."""
    _hang_if_slow(str(arguments.get("task_id")))
    handle(engine, settings, name, arguments, item_id)


def advance_slowly(engine: Any, task_id: str) -> None:
    """Advance the task, or hang."""
    _hang_if_slow(task_id)
    advance(engine, task_id)


def _hang_if_slow(task_id: str) -> None:
    while "SLOW" in task_id:
        try:
            time.sleep(60)
        except SoftTimeLimitExceeded:
            if "DEAF" not in task_id:
                raise


vars(tasks)["handle"] = handle_slowly
vars(tasks)["engine_advance"] = advance_slowly

from roboco.workers.coordinator import app  # noqa: E402  # after the changes, which it registers

__all__ = ["app"]
