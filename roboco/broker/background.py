"""background: periodic work of the main process of a worker, each in its own thread."""

import logging
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any

from celery import Celery
from celery.signals import worker_ready, worker_shutting_down

from roboco.errors import RobocoError

_log = logging.getLogger(__name__)


def run_periodically(
    app: Celery, name: str, interval: float, run: Callable[[], object], while_draining: bool = False
) -> None:
    """Call `run` every `interval` seconds, from when a worker of the application is ready until it shuts down.

    With `while_draining` the calls go on until the process ends; the first one follows the request at once.

    The calls happen in a thread called `name` of the worker's main process. It also ends if `run` returns False or
    raises.
    """
    stop_requests: SimpleQueue[bool] = SimpleQueue()

    def begin(sender: Any = None, **_: Any) -> None:
        if getattr(sender, "app", None) is app:
            threading.Thread(target=_repeat, args=(stop_requests, interval, run), name=name, daemon=True).start()

    def end(**_: Any) -> None:
        # A signal handler, which the next signal may interrupt here: with an Event, this thread would deadlock.
        stop_requests.put(not while_draining)

    worker_ready.connect(begin, weak=False)
    worker_shutting_down.connect(end, weak=False)


def logged(run: Callable[[], object], failure: str) -> None:
    """Call `run`. Log its error after the words of `failure`, with a traceback unless the error says what to do."""
    try:
        run()
    except RobocoError as error:
        _log.warning("%s: %s", failure, error)
    except Exception:
        _log.exception("%s", failure)


def _repeat(stop_requests: SimpleQueue[bool], interval: float, run: Callable[[], object]) -> None:
    while True:
        try:
            if stop_requests.get(timeout=interval):
                return
        except Empty:
            pass
        if run() is False:
            return
