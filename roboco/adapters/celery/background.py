"""What the main process of a worker does again and again beside its work, in a thread of its own."""

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any

from celery import Celery
from celery.signals import worker_ready, worker_shutting_down


def repeat_while_working(app: Celery, name: str, pause: float, act: Callable[[], object]) -> None:
    """Act every `pause` seconds, from when a worker of the application in this process is ready until it shuts down.

    The thread, which is called `name`, also ends if `act` returns False or raises.
    """
    told: SimpleQueue[None] = SimpleQueue()

    def begin(sender: Any = None, **_: Any) -> None:
        if getattr(sender, "app", None) is app:
            threading.Thread(target=_repeat, args=(told, pause, act), name=name, daemon=True).start()

    def end(**_: Any) -> None:
        # In a signal's handler, which the next signal may interrupt in here: an Event would lock this thread up.
        told.put(None)

    worker_ready.connect(begin, weak=False)
    worker_shutting_down.connect(end, weak=False)


def _repeat(told: SimpleQueue[None], pause: float, act: Callable[[], object]) -> None:
    while True:
        try:
            told.get(timeout=pause)
        except Empty:
            if act() is False:
                return
        else:
            return
