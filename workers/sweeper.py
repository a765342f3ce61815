"""The sweeper of a coordinator worker: a thread of its main process, from ready to shutdown."""

import logging
from typing import Any

from celery import Celery
from celery.signals import worker_ready

from roboco.adapters.celery.while_working import repeat_while_working
from roboco.engine.sweep import sweep
from roboco.errors import RobocoError
from workers.process import ProcessEngine

_log = logging.getLogger(__name__)


def run_sweeper(app: Celery, engine: ProcessEngine) -> None:
    """Sweep while the worker of this process runs."""

    def begin(**_: Any) -> None:
        engine.observing.tell_levels()

    worker_ready.connect(begin, weak=False)
    repeat_while_working(app, "roboco-sweeper", engine.settings.sweep_interval, lambda: _sweep(engine))


def _sweep(engine: ProcessEngine) -> None:
    try:
        sweep(engine(), engine.settings.sweep_interval)
    except RobocoError as error:
        _log.warning("a sweep failed and is tried again: %s", error)
    except Exception:
        _log.exception("a sweep failed and is tried again")
