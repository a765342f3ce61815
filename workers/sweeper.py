"""The sweeper of a coordinator worker: a thread of its main process, from ready to shutdown."""

import logging
import threading
from typing import Any

from celery.signals import worker_ready, worker_shutting_down

from roboco.engine.sweep import sweep
from roboco.errors import RobocoError
from workers.process import ProcessEngine

_log = logging.getLogger(__name__)


def run_sweeper(engine: ProcessEngine) -> None:
    """Sweep while the worker of this process runs."""
    ended = threading.Event()

    def begin(**_: Any) -> None:
        engine.observing.tell_levels()
        threading.Thread(target=_sweep_until, args=(engine, ended), name="roboco-sweeper", daemon=True).start()

    def end(**_: Any) -> None:
        ended.set()

    worker_ready.connect(begin, weak=False)
    worker_shutting_down.connect(end, weak=False)


def _sweep_until(engine: ProcessEngine, ended: threading.Event) -> None:
    interval = engine.settings.sweep_interval
    while not ended.wait(interval):
        try:
            sweep(engine(), interval)
        except RobocoError as error:
            _log.warning("a sweep failed and is tried again: %s", error)
        except Exception:
            _log.exception("a sweep failed and is tried again")
