"""scans: threads of the main process of a coordinator worker that scan the workspace, for the task index and retention.

Each scan has its own thread, so that a slow workspace delays neither the other one nor a sweep.
"""

from typing import Final

from celery import Celery

from roboco.broker.background import logged, run_periodically
from roboco.engine.operate.rebuild_index import rebuild_index
from roboco.engine.operate.retention import enforce_retention
from roboco.workers.process_engine import ProcessEngine

INDEX_INTERVAL: Final = 1.0
"""Seconds between two attempts to take the lock of the rebuild of the task index."""
RETENTION_INTERVAL: Final = 5.0
"""Seconds between two attempts to take that of the retention's scan."""
RUN_TIME: Final = 10.0
"""Seconds for which a lock lasts, and after which a run leaves the rest to the next one."""


def install_scans(app: Celery, engine: ProcessEngine) -> None:
    """Keep the task index complete and, if the settings have rules, enforce the retention, while the worker runs."""

    def rebuild() -> None:
        logged(lambda: rebuild_index(engine(), RUN_TIME), "the rebuild of the task index failed and is tried again")

    def enforce() -> None:
        logged(lambda: enforce_retention(engine(), RUN_TIME), "the retention's scan failed and is tried again")

    run_periodically(app, "roboco-index", INDEX_INTERVAL, rebuild)
    if engine.settings.retention_rules:
        run_periodically(app, "roboco-retention", RETENTION_INTERVAL, enforce)
