"""registration: workers register themselves, and clients and workers compare their workspaces.

A worker or client with another workspace than the coordinators would wait for ever, or find tasks without a history.
A workspace stores its own id, so that two folders, buckets or prefixes differ, and two addresses of one do not.
"""

from itertools import islice

from roboco.domain.paths import WORKSPACE_FILE, summary_path
from roboco.engine.engine import Engine
from roboco.errors import UsageError
from roboco.ports.registry import COORDINATOR, LIVENESS_TIMEOUT, Registration, WorkerRegistry, WorkspaceIdentity
from roboco.ports.schedule import Schedule
from roboco.ports.workspace import Files

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
