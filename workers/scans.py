"""scans: threads of the main process of a worker that scan the workspace or the folder of the search indexes.

Each scan has its own thread, so that a slow workspace delays neither another one nor a sweep.
"""

from typing import Final

from celery import Celery

from roboco.broker.background import logged, run_periodically
from roboco.domain.paths import tombstone_path
from roboco.engine.operate.rebuild_index import rebuild_index
from roboco.engine.operate.retention import enforce_retention
from roboco.ports.workspace import Files
from roboco.tools.search.index_cache import IndexCache, cache_folder
from roboco.workers.process_engine import ProcessEngine

INDEX_INTERVAL: Final = 1.0
"""Seconds between two attempts to take the lock of the rebuild of the task index."""
RETENTION_INTERVAL: Final = 5.0
"""Seconds between two attempts to take that of the retention's scan."""
RUN_TIME: Final = 10.0
"""Seconds for which a lock lasts, and after which a run leaves the rest to the next one."""
REMOVAL_INTERVAL: Final = 600.0
"""Seconds between two removals of the search indexes of erased tasks."""


def install_scans(app: Celery, engine: ProcessEngine) -> None:
    """Keep the task index complete and, if the settings have rules, enforce the retention, while the worker runs."""

    def rebuild() -> None:
        logged(lambda: rebuild_index(engine(), RUN_TIME), "the rebuild of the task index failed and is tried again")

    def enforce() -> None:
        logged(lambda: enforce_retention(engine(), RUN_TIME), "the retention's scan failed and is tried again")

    run_periodically(app, "roboco-index", INDEX_INTERVAL, rebuild)
    if engine.settings.retention_rules:
        run_periodically(app, "roboco-retention", RETENTION_INTERVAL, enforce)


def install_index_removal(app: Celery, engine: ProcessEngine) -> None:
    """Remove the search indexes of erased tasks from the folder of this machine, which no coordinator reaches."""

    def remove() -> int:
        return remove_erased_indexes(engine().workspace.files, IndexCache(cache_folder()), engine.settings.workspace)

    failure = "the search indexes of erased tasks are removed later"
    run_periodically(app, "roboco-erased-indexes", REMOVAL_INTERVAL, lambda: logged(remove, failure))


def remove_erased_indexes(files: Files, cache: IndexCache, workspace: str) -> int:
    """Remove the indexes of tasks that were erased. Return their number. Cost: a request for each index."""
    return cache.remove_if(lambda task_id: files.size(tombstone_path(task_id)) is not None, workspace)
