"""Composition roots whose workers kill themselves once, instead of sending one Celery message.

KILL_BEFORE names the Celery task whose message is not sent. A file in TEST_FOLDER notes that it was done.
"""

import os
import signal
from pathlib import Path
from typing import Any

from celery import Celery


def killing(app: Celery, prefork: bool) -> Celery:
    """The application; its worker dies with all its processes at the first message of the named kind."""
    send = app.send_task
    main = os.getpid()

    def or_die(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == os.environ.get("KILL_BEFORE") and os.getpid() != main * prefork and _first(name):
            os.kill(main, signal.SIGKILL)
            signal.pause()
        return send(name, *args, **kwargs)

    vars(app)["send_task"] = or_die
    return app


def _first(name: str) -> bool:
    try:
        (Path(os.environ["TEST_FOLDER"]) / f"killed-before-{name}").touch(exist_ok=False)
    except FileExistsError:
        return False
    return True
