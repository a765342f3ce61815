"""roboco.workers.coordinator whose children kill themselves on a submission with DEADLY in its id."""

import os
import signal
from typing import Any

from roboco.workers import coordinator, tasks

handle = vars(tasks)["handle"]


def handle_or_die(engine: Any, settings: Any, name: str, arguments: dict[str, Any], item_id: str) -> None:
    """Handle the message, or die."""
    if name == "roboco.submit" and "DEADLY" in str(arguments.get("task_id")) and "DEADLY_NO_MORE" not in os.environ:
        os.kill(os.getpid(), signal.SIGKILL)
    handle(engine, settings, name, arguments, item_id)


vars(tasks)["handle"] = handle_or_die
app = coordinator.app
