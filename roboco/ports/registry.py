"""The registry of workers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

COORDINATOR = "coordinator"
POOLS = (COORDINATOR, "agents", "tools")
"""The pools in which a worker may work."""
DRAINING = "draining"
"""In place of its pools: a worker that takes no new work, because it is shutting down."""
LIVENESS_TIMEOUT = 10.0
"""Seconds after its last registration for which a worker counts as live."""


@dataclass(frozen=True)
class WorkspaceIdentity:
    """The identity of a workspace."""

    id: str
    """The id that is stored in the workspace."""
    address: str
    """The address by which a process reaches it, for people."""


@dataclass(frozen=True)
class WorkerLoad:
    """The Celery tasks that a worker runs."""

    active: int = 0
    """Their number."""
    running: tuple[str, ...] = ()
    """The ids of some of them, the longest running first. The id of a turn or call begins with its task and a slash."""
    since: tuple[float, ...] = ()
    """When each of these began, in Unix seconds of the worker's clock."""


NO_LOAD = WorkerLoad()


@dataclass(frozen=True)
class Registration:
    """The facts that a worker registers."""

    pools: tuple[str, ...]
    """The pools in which it works."""
    modules: tuple[str, ...]
    """The modules of tools that it has imported."""
    workspace: WorkspaceIdentity
    load: WorkerLoad = NO_LOAD
    version: str = ""
    """The release of Roboco that it runs."""
    drains_for: float | None = None
    """Seconds until it hands its work over, because it is shutting down. None if it takes work."""


@dataclass(frozen=True)
class RegisteredWorker:
    """A worker of a pool, as it registered last."""

    name: str
    """Its node name, such as `celery@host`."""
    silent_for: float
    """Seconds since it registered."""
    load: WorkerLoad
    pools: tuple[str, ...] = ()
    """Its pools."""
    version: str = ""
    drains_for: float | None = None
    modules: tuple[str, ...] = ()
    """The last three are those of its registration."""


@dataclass(frozen=True)
class PoolStatus:
    """The workers of a pool that have registered within a day."""

    live: int
    """The number of those that count as live."""
    registered: int
    """The number of all."""
    workers: list[RegisteredWorker]
    """Some of them, the last registration first."""


@dataclass(frozen=True)
class DrainRequest:
    """A request for a worker to drain."""

    timeout: float | None
    """Seconds until it hands its work over, or None for its own setting."""


class WorkerRegistry(Protocol):
    """The live workers: each registers itself every few seconds, and obeys the switches. Times are the server's."""

    @property
    def node_name(self) -> str:
        """Return the node name of this process's worker; "" in a process that is not a worker."""

    def register(self, worker: Registration, foreign_tasks: bool) -> WorkspaceIdentity | None:
        """Record that this worker lives, with the facts that it registers. They replace its earlier ones.

        A coordinator also records its workspace. In two cases this records nothing and returns the recorded workspace:
        it is another one and another coordinator lives, or it is another one and its open tasks are not this
        workspace's (`foreign_tasks`). Otherwise it returns None. A worker that drains leaves its pools, and is
        registered in DRAINING alone.
        """

    def unregister(self, pools: tuple[str, ...]) -> None:
        """Remove this worker, which ends, from these pools and from DRAINING."""

    def request_drain(self, name: str, timeout: float | None) -> None:
        """Ask the worker to drain, for at most these seconds; None for its own setting.

        The request is lost after a minute: a live worker takes it within seconds.
        """

    def take_drain_request(self) -> DrainRequest | None:
        """Return the request for this worker to drain, once, or None."""

    def switches(self) -> str | None:
        """Return the copy of the switches, or None if Redis does not have it. The record is in the workspace."""

    def put_switches(self, text: str, revision: int) -> None:
        """Store the copy of the switches, unless one of a higher revision is stored. A repetition changes nothing."""

    def find(self, name: str) -> RegisteredWorker | None:
        """Return the worker with this node name, as it registered last within a day, or None. Cost: O(1)."""

    @property
    def workspace_key(self) -> str:
        """Return the name of the key that records the workspace, for operators."""

    def seconds_since_registration(self) -> Mapping[str, float | None]:
        """Return for each pool the seconds since a worker of it registered; None if none did within a day."""

    def pool_status(self, pool: str, limit: int) -> PoolStatus:
        """Return the workers of the pool, or those of DRAINING, at most `limit` of them one by one. Cost: O(limit)."""

    def workspace(self) -> WorkspaceIdentity | None:
        """Return the workspace of the coordinators, or None if none has registered."""
