"""worker_status: the live workers, as a client sees them, and the id of the client's workspace."""

import json
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from roboco.domain.paths import WORKSPACE
from roboco.errors import CorruptHistory
from roboco.ports import Files, WorkerRegistry, WorkspaceName

CACHED = 5.0
"""Seconds for which the registry is cached: many followers of a process share it."""


class Parts(Protocol):
    """The ports that this module reads."""

    @property
    def workers(self) -> WorkerRegistry: ...
    @property
    def files(self) -> Files: ...


@dataclass(frozen=True)
class Seen:
    """The registry at one moment: the workspace of the coordinators, and how long each pool has been silent."""

    at: float
    workspace: WorkspaceName | None
    silence: Mapping[str, float | None]


class WorkerStatus:
    """Reads the registry at most every CACHED seconds. Threads share it: at worst two of them read."""

    def __init__(self) -> None:
        self._seen: Seen | None = None
        self._own: WorkspaceName | None = None

    def seen(self, parts: Parts) -> Seen:
        """Return the content of the registry. Cost: five commands to Redis if the last ones are CACHED seconds old."""
        now = time.monotonic()
        seen = self._seen
        if seen is None or now - seen.at >= CACHED:
            seen = Seen(now, parts.workers.workspace(), parts.workers.silence())
            self._seen = seen
        return seen

    def own(self, parts: Parts, address: str) -> WorkspaceName:
        """Return the name of this process's workspace, which is read once."""
        own = self._own
        if own is None or own.address != address:
            own = self._own = workspace_name(parts.files, address)
        return own


def workspace_name(files: Files, address: str) -> WorkspaceName:
    """Return the name of the workspace with these files, at this address. If the workspace has no id, store one."""
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
