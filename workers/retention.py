"""retention: a thread of the main process of a coordinator worker that scans for tasks whose retention has ended.

It has its own thread, so that a slow workspace delays no sweep.
"""

import logging

from celery import Celery

from roboco.broker.background import run_periodically
from roboco.engine.operate.retention import enforce_retention
from roboco.errors import TransientError
from roboco.workers.process_engine import ProcessEngine

_log = logging.getLogger(__name__)

INTERVAL = 5.0
"""Seconds between two attempts to take the lock."""
RUN_TIME = 10.0
"""Seconds for which the lock lasts, and after which a run leaves the rest to the next one."""


def install_retention(app: Celery, engine: ProcessEngine) -> None:
    """Scan while the worker of this process runs, if the settings have rules."""
    if engine.settings.retention_rules:
        run_periodically(app, "roboco-retention", INTERVAL, lambda: _scan(engine))


def _scan(engine: ProcessEngine) -> None:
    try:
        enforce_retention(engine(), RUN_TIME)
    except TransientError as error:
        _log.warning("the retention's scan failed and is tried again: %s", error)
    except Exception:
        _log.exception("the retention's scan failed and is tried again")
