"""erased_indexes: a thread of the main process of a tools worker that removes the search indexes of erased tasks.

The folder of the indexes is this machine's, so no coordinator reaches it. Cost: a request to the workspace for
each index of the folder, each time.
"""

import logging

from celery import Celery

from roboco.broker.background import run_periodically
from roboco.domain.paths import tombstone_path
from roboco.errors import RobocoError
from roboco.ports.workspace import Files
from roboco.tools.search.index_cache import IndexCache, cache_folder
from roboco.workers.process_engine import ProcessEngine

_log = logging.getLogger(__name__)

INTERVAL = 600.0
"""Seconds between two removals."""


def install_index_removal(app: Celery, engine: ProcessEngine) -> None:
    """Remove the indexes of erased tasks while the worker of this process runs."""
    run_periodically(app, "roboco-erased-indexes", INTERVAL, lambda: _remove(engine))


def _remove(engine: ProcessEngine) -> None:
    try:
        remove_erased_indexes(engine().workspace.files, IndexCache(cache_folder()), engine.settings.workspace)
    except RobocoError as error:
        _log.warning("the search indexes of erased tasks are removed later: %s", error)
    except Exception:
        _log.exception("the search indexes of erased tasks are removed later")


def remove_erased_indexes(files: Files, cache: IndexCache, workspace: str) -> int:
    """Remove the indexes of tasks that were erased. Return their number."""
    return cache.remove_if(lambda task_id: files.size(tombstone_path(task_id)) is not None, workspace)
