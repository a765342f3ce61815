"""The registry of workers in memory."""

from collections.abc import Mapping

from roboco.ports import registry
from roboco.ports.clock import Clock
from roboco.ports.registry import (
    COORDINATOR,
    DRAINING,
    POOLS,
    DrainRequest,
    PoolStatus,
    RegisteredWorker,
    Registration,
    WorkerRegistry,
    WorkspaceIdentity,
)
from tests.support.memory_ports.server import MemoryServer

MAX_AGE = 86_400.0


class MemoryWorkerRegistry(WorkerRegistry):
    """The registry as used by the worker with the node name `own`."""

    node_name = ""
    workspace_key = "workspace"

    def __init__(
        self, server: MemoryServer, clock: Clock, own: str = "", live: float = registry.LIVENESS_TIMEOUT
    ) -> None:
        self._server = server
        self._clock = clock
        self.node_name = own
        self._live = live

    def switches(self) -> str | None:
        with self._server as held:
            return None if held.switches is None else held.switches[1]

    def put_switches(self, text: str, revision: int) -> None:
        with self._server as held:
            if held.switches is None or held.switches[0] <= revision:
                held.switches = (revision, text)

    def register(self, worker: Registration, foreign_tasks: bool) -> WorkspaceIdentity | None:
        now = self._clock.now()
        with self._server as held:
            known = held.workspace
            if known is not None and known.id != worker.workspace.id:
                live = [at for name, at in held.workers[COORDINATOR].items() if name != self.node_name]
                if foreign_tasks or any(at >= now - self._live for at in live):
                    return known
            if COORDINATOR in worker.pools:
                held.workspace = worker.workspace
            held.registrations[self.node_name] = worker
            if worker.drains_for is not None:
                for pool in worker.pools:
                    held.workers[pool].pop(self.node_name, None)
            for pool in worker.pools if worker.drains_for is None else (DRAINING,):
                held.workers[pool][self.node_name] = now
        return None

    def unregister(self, pools: tuple[str, ...]) -> None:
        with self._server as held:
            for pool in (*pools, DRAINING):
                held.workers[pool].pop(self.node_name, None)

    def request_drain(self, name: str, timeout: float | None) -> None:
        with self._server as held:
            held.drain_requests[name] = DrainRequest(timeout)

    def take_drain_request(self) -> DrainRequest | None:
        with self._server as held:
            return held.drain_requests.pop(self.node_name, None)

    def find(self, name: str) -> RegisteredWorker | None:
        now = self._clock.now()
        with self._server as held:
            known = [workers[name] for workers in held.workers.values() if name in workers]
            newest = max(known, default=None)
            if newest is None or now - newest > MAX_AGE:
                return None
            return _registered(name, now - newest, held.registrations[name])

    def seconds_since_registration(self) -> Mapping[str, float | None]:
        now = self._clock.now()
        with self._server as held:
            last = {pool: max(held.workers[pool].values(), default=None) for pool in POOLS}
        return {pool: None if at is None or now - at > MAX_AGE else now - at for pool, at in last.items()}

    def pool_status(self, pool: str, limit: int) -> PoolStatus:
        now = self._clock.now()
        with self._server as held:
            known = sorted(((now - at, name) for name, at in held.workers[pool].items() if now - at <= MAX_AGE))
            workers = [_registered(name, silent_for, held.registrations[name]) for silent_for, name in known[:limit]]
        return PoolStatus(sum(silent_for <= self._live for silent_for, _ in known), len(known), workers)

    def workspace(self) -> WorkspaceIdentity | None:
        with self._server as held:
            return held.workspace


def _registered(name: str, silent_for: float, worker: Registration) -> RegisteredWorker:
    facts = (worker.pools, worker.version, worker.drains_for, worker.modules)
    return RegisteredWorker(name, silent_for, worker.load, *facts)
