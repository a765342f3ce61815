"""workers.coordinator, whose children kill themselves whenever they take a submission in with DEADLY in its id."""

import os
import signal
from typing import Any

from workers import coordinator, tasks

take = vars(tasks)["take_submission"]


def deadly(engine: Any, settings: Any, arguments: dict[str, Any]) -> str:
    """Take the submission in, or die."""
    if "DEADLY" in str(arguments.get("task_id")) and "DEADLY_NO_MORE" not in os.environ:
        os.kill(os.getpid(), signal.SIGKILL)
    return str(take(engine, settings, arguments))


vars(tasks)["take_submission"] = deadly
app = coordinator.app
