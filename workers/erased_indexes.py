"""erased_indexes: a thread of the main process of a tools worker that removes the search indexes of erased tasks.

The folder of the indexes is this machine's, so no coordinator reaches it. Cost: a request to the workspace for
each index of the folder, each time.
"""

from celery import Celery

from roboco.broker.background import logged, run_periodically
from roboco.domain.paths import tombstone_path
from roboco.ports.workspace import Files
from roboco.tools.search.index_cache import IndexCache, cache_folder
from roboco.workers.process_engine import ProcessEngine

INTERVAL = 600.0
"""Seconds between two removals."""


def install_index_removal(app: Celery, engine: ProcessEngine) -> None:
    """Remove the indexes of erased tasks while the worker of this process runs."""

    def remove() -> int:
        return remove_erased_indexes(engine().workspace.files, IndexCache(cache_folder()), engine.settings.workspace)

    failure = "the search indexes of erased tasks are removed later"
    run_periodically(app, "roboco-erased-indexes", INTERVAL, lambda: logged(remove, failure))


def remove_erased_indexes(files: Files, cache: IndexCache, workspace: str) -> int:
    """Remove the indexes of tasks that were erased. Return their number."""
    return cache.remove_if(lambda task_id: files.size(tombstone_path(task_id)) is not None, workspace)
