"""registration: workers check the format of their workspace and register, and processes compare their workspaces.

    _workspace.json ─► format? ─► higher: refused; equal: starts; none: open tasks are read ─► recorded, or refused
                                                                  (once for a workspace)      (replace)

Records of Redis and of the workspace may have fields that this release does not know: they are kept or ignored. Fields
that it does not find have their defaults. So releases of one format run side by side, and the number rises only if they
cannot.

A worker or client with another workspace than the coordinators would wait for ever, or find tasks without a history.
A workspace stores its own id, so that two folders, buckets or prefixes differ, and two addresses of one do not.
"""

import json
from itertools import islice
from typing import Any, Final

from roboco.domain.paths import OPEN_MARKERS, WORKSPACE_FILE, summary_path
from roboco.engine.engine import Engine
from roboco.engine.worker_status import FORMAT
from roboco.engine.workspace_records import FrozenTeams
from roboco.errors import CorruptHistory, TransientError, UsageError
from roboco.ports.registry import COORDINATOR, LIVENESS_TIMEOUT, Registration, WorkerRegistry, WorkspaceIdentity
from roboco.ports.schedule import Schedule
from roboco.ports.task_store import TaskStore
from roboco.ports.workspace import Files

FIRST_RELEASE: Final = "0.1.0"
"""The first release of this format."""
FORMAT_SAMPLE: Final = 200
"""Open tasks of a workspace without a format that are read."""


def check_format(files: Files, task_store: TaskStore, address: str) -> None:
    """Record the format of the workspace if it has none. Raise UsageError if it is that of an earlier release.

    Cost: one read; once for a workspace also two reads for each of at most 200 open tasks.
    """
    stored = files.get_versioned(WORKSPACE_FILE)
    record: dict[str, Any] = {} if stored is None else json.loads(stored.data)
    if stored is None or "format" in record:
        return
    for task_id in files.names_after(OPEN_MARKERS, "", FORMAT_SAMPLE):
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


SAMPLE_SIZE = 20
"""Open tasks that a coordinator searches in its workspace if others have registered another one."""


def register(workers: WorkerRegistry, schedule: Schedule, files: Files, worker: Registration) -> None:
    """Register the worker of this process. UsageError if its workspace, with these files, is not the coordinators'.

    A coordinator is refused if others have registered another workspace and its own does not have their open tasks: it
    was started in a wrong folder. If its workspace has them, the others were.
    """
    known = workers.workspace()
    differs = known is not None and known.id != worker.workspace.id
    foreign = differs and COORDINATOR in worker.pools and _is_foreign(schedule, files)
    other = workers.register(worker, foreign)
    if other is not None:
        raise UsageError(
            f"worker {workers.node_name!r} {_difference(worker.workspace, other)}. If the workspace of the others "
            f"is gone for good, delete the key {workers.workspace_key!r} in Redis: it names the workspace, and no task "
            "is lost with it"
        )


def _is_foreign(schedule: Schedule, files: Files) -> bool:
    """Return True if an open task is not in this workspace. Cost: one page of the schedule and SAMPLE_SIZE reads."""
    return any(files.size(summary_path(task_id)) is None for task_id in islice(schedule.task_ids(), SAMPLE_SIZE))


def check_workspace(engine: Engine, address: str) -> None:
    """Raise UsageError if this client's workspace is not the one of the live coordinators.

    The registry is cached for CACHE_SECONDS, and the id of this client's workspace for ever.
    """
    seen = engine.worker_status.registry_snapshot()
    if seen.workspace is None:
        return
    own = engine.worker_status.own_workspace(address)
    if own.id != seen.workspace.id and not is_silent(seen.silence[COORDINATOR]):
        raise UsageError(f"this client {_difference(own, seen.workspace)}")


def _difference(own: WorkspaceIdentity, other: WorkspaceIdentity) -> str:
    if own.address == other.address:
        return (
            f"uses the workspace {own.address}, which was deleted and made again, or lost its {WORKSPACE_FILE}, after "
            "others used it: restore it from a backup, or begin again with another ROBOCO_PREFIX and ROBOCO_BROKER_URL"
        )
    return (
        f"uses the workspace {own.address}, the others {other.address}: set ROBOCO_WORKSPACE to the same workspace for "
        "all. If these are two deployments, give each its own ROBOCO_PREFIX and ROBOCO_BROKER_URL"
    )


def is_silent(seconds: float | None) -> bool:
    """Return True if a pool whose worker registered that long ago has no live worker."""
    return seconds is None or seconds >= LIVENESS_TIMEOUT
