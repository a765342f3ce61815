"""The registry of workers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

COORDINATOR = "coordinator"
POOLS = (COORDINATOR, "agents", "tools")
"""The pools in which a worker may work."""
LIVENESS_TIMEOUT = 10.0
"""Seconds after its last registration for which a worker counts as live."""


@dataclass(frozen=True)
class WorkspaceIdentity:
    """The identity of a workspace."""

    id: str
    """The id that is stored in the workspace."""
    address: str
    """The address by which a process reaches it, for people."""


class WorkerRegistry(Protocol):
    """The live workers: each registers itself every few seconds. Times are the server's."""

    @property
    def node_name(self) -> str:
        """Return the node name of this process's worker; "" in a process that is not a worker."""

    def register(
        self, pools: tuple[str, ...], modules: tuple[str, ...], workspace: WorkspaceIdentity, foreign_tasks: bool
    ) -> WorkspaceIdentity | None:
        """Record that this worker lives, works in these pools, and has imported these modules of tools.

        A coordinator also records its workspace. In two cases this records nothing and returns the recorded workspace:
        it is another one and another coordinator lives, or it is another one and its open tasks are not this
        workspace's (`foreign_tasks`). Otherwise it returns None.
        """

    @property
    def workspace_key(self) -> str:
        """Return the name of the key that records the workspace, for operators."""

    def seconds_since_registration(self) -> Mapping[str, float | None]:
        """Return for each pool the seconds since a worker of it registered; None if none did within a day."""

    def modules(self, pool: str) -> Mapping[str, frozenset[str]]:
        """Return the modules of tools of each live worker of the pool, by node name. Cost: O(live workers)."""

    def workspace(self) -> WorkspaceIdentity | None:
        """Return the workspace of the coordinators, or None if none has registered."""
