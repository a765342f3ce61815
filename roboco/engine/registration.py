"""registration: workers register themselves, and clients and workers compare their workspaces.

A worker or client with another workspace than the coordinators would wait for ever, or find tasks without a history.
The id of a workspace is stored in it, so that two folders, buckets or prefixes differ, and two names of one do not.
"""

from dataclasses import dataclass

from roboco.engine.engine import Engine
from roboco.errors import UsageError
from roboco.ports import Schedule, WorkerRegistry, WorkspaceName
from roboco.ports.registry import COORDINATOR, LIVE


@dataclass(frozen=True)
class Registration:
    """A worker as it registers: the pools in which it works, the modules of tools that it has, and its workspace."""

    pools: tuple[str, ...]
    modules: tuple[str, ...]
    workspace: WorkspaceName


def register(workers: WorkerRegistry, schedule: Schedule, worker: Registration) -> None:
    """Register the worker of this process. UsageError if its workspace is not the coordinators'."""
    other = workers.register(worker.pools, worker.modules, worker.workspace, schedule.count() > 0)
    if other is not None:
        raise UsageError(
            f"worker {workers.own!r} {_differ(worker.workspace, other)}. If the workspace of the others is gone for "
            f"good, delete the key {workers.record!r} in Redis"
        )


def check_workspace(engine: Engine, address: str) -> None:
    """UsageError if this client's workspace is not the one of the coordinators that live, or of the open tasks.

    What it reads is kept for CACHED seconds, and the id of this client's workspace for ever.
    """
    seen = engine.status.seen(engine)
    if seen.workspace is None:
        return
    own = engine.status.own(engine, address)
    if own.id != seen.workspace.id and (not is_silent(seen.silence[COORDINATOR]) or engine.schedule.count()):
        raise UsageError(f"this client {_differ(own, seen.workspace)}")


def _differ(own: WorkspaceName, other: WorkspaceName) -> str:
    return (
        f"uses the workspace {own.address}, the others {other.address}: set ROBOCO_WORKSPACE to the same workspace for "
        "all, or ROBOCO_PREFIX to another name if these are two deployments"
    )


def is_silent(seconds: float | None) -> bool:
    """Return True if a pool whose worker registered that long ago has no live worker."""
    return seconds is None or seconds >= LIVE
