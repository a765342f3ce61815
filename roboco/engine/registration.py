"""registration: workers register themselves, and clients and workers compare their workspaces.

A worker or client with another workspace than the coordinators would wait for ever, or find tasks without a history.
The id of a workspace is stored in it, so that two folders, buckets or prefixes differ, and two names of one do not.
"""

import json
import uuid
from dataclasses import dataclass

from roboco.domain.paths import WORKSPACE
from roboco.engine.engine import Engine
from roboco.errors import CorruptHistory, UsageError
from roboco.ports import Agenda, Files, WorkerRegistry, WorkspaceName
from roboco.ports.registry import LIVE


def workspace_name(files: Files, address: str) -> WorkspaceName:
    """Return the name of the workspace with these files, which is at this address. If it has no id, store one."""
    data = files.get(WORKSPACE)
    if data is None:
        files.create(WORKSPACE, json.dumps({"id": uuid.uuid4().hex}).encode())
        data = files.get(WORKSPACE)
    return WorkspaceName(_id_of(data or b"", address), address)


def _id_of(data: bytes, address: str) -> str:
    try:
        found = json.loads(data)["id"]
    except (ValueError, TypeError, KeyError):
        found = None
    if not isinstance(found, str) or not found.isalnum():
        raise CorruptHistory(
            f"{WORKSPACE} in the workspace {address} does not hold an id: delete it, and it is made again"
        )
    return found


@dataclass(frozen=True)
class Registration:
    """A worker as it registers: the pools in which it works, the modules of tools that it has, and its workspace."""

    pools: tuple[str, ...]
    modules: tuple[str, ...]
    workspace: WorkspaceName


def register(workers: WorkerRegistry, agenda: Agenda, worker: Registration) -> None:
    """Register the worker of this process. UsageError if its workspace is not the coordinators'."""
    other = workers.register(worker.pools, worker.modules, worker.workspace, agenda.count() > 0)
    if other is not None:
        raise UsageError(_differ(f"worker {workers.own!r}", worker.workspace, other))


def check_workspace(engine: Engine, address: str, about_to_submit: bool = False) -> None:
    """UsageError if this client's workspace is not the one of the coordinators that live, or of the open tasks.

    With `about_to_submit`, a workspace that is not in use is replaced by the client's, so that workers with another
    one end at their start.
    """
    other = engine.workers.workspace()
    if other is None and not about_to_submit:
        return
    own = workspace_name(engine.files, address)
    if other is not None and own.id == other.id:
        return
    silent = engine.workers.silence()["coordinator"]
    if other is not None and ((silent is not None and silent < LIVE) or engine.agenda.count()):
        raise UsageError(_differ("this client", own, other))
    if about_to_submit:
        engine.workers.use(own)


def _differ(who: str, own: WorkspaceName, other: WorkspaceName) -> str:
    return (
        f"{who} uses the workspace {own.address}, the others {other.address}: set ROBOCO_WORKSPACE to the same "
        "workspace for all, or ROBOCO_PREFIX to another name if these are two deployments"
    )
