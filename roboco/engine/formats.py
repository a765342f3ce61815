"""formats: the format in which this release stores tasks, and the check that a worker can read the stored tasks.

    _workspace.json ─► format? ─► higher: refused; equal: starts; none: open tasks are read ─► recorded, or refused
                                                                  (once for a workspace)      (replace)

Records of Redis and of the workspace may have fields that this release does not know: they are kept or ignored. Fields
that it does not find have their defaults. So releases of one format run side by side, and the number rises only if they
cannot.
"""

import json
from typing import Any, Final

from roboco.domain.paths import OPEN_MARKERS, WORKSPACE_FILE
from roboco.engine.frozen_teams import FrozenTeams
from roboco.engine.worker_status import FORMAT
from roboco.errors import CorruptHistory, TransientError, UsageError
from roboco.ports.task_store import TaskStore
from roboco.ports.workspace import Files

FIRST_RELEASE: Final = "0.1.0"
"""The first release of this format."""
SAMPLE_SIZE: Final = 200
"""Open tasks of a workspace without a format that are read."""


def check_format(files: Files, task_store: TaskStore, address: str) -> None:
    """Record the format of the workspace if it has none. Raise UsageError if it is that of an earlier release.

    Cost: one read; once for a workspace also two reads for each of at most 200 open tasks.
    """
    stored = files.get_versioned(WORKSPACE_FILE)
    record: dict[str, Any] = {} if stored is None else json.loads(stored.data)
    if stored is None or "format" in record:
        return
    for task_id in files.names_after(OPEN_MARKERS, "", SAMPLE_SIZE):
        if problem := _problem_of(files, task_store, task_id):
            raise UsageError(
                f"task {task_id!r} in the workspace {address} was stored by a release before {FIRST_RELEASE}, which "
                f"cannot run beside this one ({problem}): let the workers of that release end all open tasks, stop "
                "these workers, and start this one then; or give this deployment another ROBOCO_WORKSPACE and "
                "ROBOCO_PREFIX"
            )
    files.replace(WORKSPACE_FILE, json.dumps(record | {"format": FORMAT}).encode(), stored.version)


def _problem_of(files: Files, task_store: TaskStore, task_id: str) -> str:
    """Return why this release cannot continue the open task, or ""."""
    try:
        FrozenTeams(files).find(task_id)
        task_store.load(task_id, 1)
    except TransientError:
        raise
    except CorruptHistory as error:
        return str(error)
    except (KeyError, ValueError) as error:
        return f"its state in Redis lacks {error}" if isinstance(error, KeyError) else "its state in Redis is another"
    return ""
