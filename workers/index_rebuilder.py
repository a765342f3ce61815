"""index_rebuilder: a thread of the main process of a coordinator worker that keeps the task index complete.

It has its own thread, so that a slow workspace delays no sweep.
"""

import logging

from celery import Celery

from roboco.broker.background import run_periodically
from roboco.engine.operate.rebuild_index import rebuild_index
from roboco.errors import TransientError
from roboco.workers.process_engine import ProcessEngine

_log = logging.getLogger(__name__)

INTERVAL = 1.0
"""Seconds between two attempts to take the lock."""
RUN_TIME = 10.0
"""Seconds for which the lock lasts, and after which a run leaves the rest to the next one."""


def install_index_rebuilder(app: Celery, engine: ProcessEngine) -> None:
    """Rebuild the task index while the worker of this process runs."""
    run_periodically(app, "roboco-index", INTERVAL, lambda: _rebuild(engine))


def _rebuild(engine: ProcessEngine) -> None:
    try:
        rebuild_index(engine(), RUN_TIME)
    except TransientError as error:
        _log.warning("the rebuild of the task index failed and is tried again: %s", error)
    except Exception:
        _log.exception("the rebuild of the task index failed and is tried again")
