"""worker_status: the live workers, as a client sees them, and the id of the client's workspace."""

import json
import math
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from roboco.domain.paths import WORKSPACE_FILE
from roboco.errors import CorruptHistory, UsageError
from roboco.ports.registry import WorkerRegistry, WorkspaceIdentity
from roboco.ports.workspace import Files

CACHE_SECONDS = 5.0
"""Seconds for which the registry is cached: many followers of a process share it."""


@dataclass(frozen=True)
class RegistrySnapshot:
    """The registry at one moment: the workspace of the coordinators, and how long each pool has been silent."""

    read_at: float
    workspace: WorkspaceIdentity | None
    silence: Mapping[str, float | None]


class WorkerStatus:
    """Reads the registry at most every CACHE_SECONDS. Threads share it: at worst two of them read."""

    def __init__(self, workers: WorkerRegistry, broker_fault: Callable[[], str], files: Files) -> None:
        self._workers = workers
        self._broker_fault = broker_fault
        self._files = files
        self._snapshot: RegistrySnapshot | None = None
        self._workspace: WorkspaceIdentity | None = None
        self._broker = -math.inf, ""

    def registry_snapshot(self) -> RegistrySnapshot:
        """Return the content of the registry. Cost: five commands to Redis if the last ones are CACHE_SECONDS old."""
        now = time.monotonic()
        seen = self._snapshot
        if seen is None or now - seen.read_at >= CACHE_SECONDS:
            seen = RegistrySnapshot(now, self._workers.workspace(), self._workers.seconds_since_registration())
            self._snapshot = seen
        return seen

    def broker_fault(self) -> str:
        """Return why the broker takes no messages, or "". It is asked at most every CACHE_SECONDS."""
        at, found = self._broker
        if time.monotonic() - at >= CACHE_SECONDS:
            found = self._broker_fault()
            self._broker = time.monotonic(), found
        return found

    def own_workspace(self, address: str) -> WorkspaceIdentity:
        """Return the name of this process's workspace, which is read once."""
        own = self._workspace
        if own is None or own.address != address:
            own = self._workspace = workspace_name(self._files, address)
        return own


FORMAT: Final = 1
"""The format in which this release stores tasks (`registration.py`)."""


def workspace_name(files: Files, address: str) -> WorkspaceIdentity:
    """Return the name of the workspace with these files, at this address. If the workspace has no id, store one.

    A worker adds the format (`registration.py`): a workspace without an id may have tasks of an earlier release.
    """
    data = files.get(WORKSPACE_FILE)
    if data is None:
        files.create(WORKSPACE_FILE, json.dumps({"id": uuid.uuid4().hex}).encode())
        data = files.get(WORKSPACE_FILE)
    return WorkspaceIdentity(_id_of(data or b"", address), address)


def _check_not_later(record: Any, address: str) -> None:
    """Raise UsageError if the record of the workspace names a format of a later release."""
    found = record.get("format") if isinstance(record, dict) else None
    if isinstance(found, int) and found > FORMAT:
        raise UsageError(
            f"the workspace {address} has format {found} of a later release, and this process reads format {FORMAT}: "
            "update it to that release"
        )


def _id_of(data: bytes, address: str) -> str:
    try:
        record = json.loads(data)
        found = record["id"]
    except (ValueError, TypeError, KeyError):
        record = found = None
    _check_not_later(record, address)
    if not isinstance(found, str) or not found.isalnum():
        raise CorruptHistory(
            f"{WORKSPACE_FILE} in the workspace {address} does not hold an id: restore it from a backup; without one "
            "move it away, and restart all workers and clients, because another id is made"
        )
    return found
