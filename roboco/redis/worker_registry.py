"""The registry of workers on Redis: for each pool a sorted set of workers and a hash of their modules."""

import json
from collections.abc import Mapping
from typing import Any

from roboco.ports import registry
from roboco.ports.registry import (
    COORDINATOR,
    DRAINING,
    POOLS,
    DrainRequest,
    PoolStatus,
    Registration,
    WorkerLoad,
    WorkspaceIdentity,
)
from roboco.redis.client import server_time
from roboco.redis.keys import Keys
from roboco.redis.scripts import Scripts, translating_errors

WORKER_TTL = 86_400
"""Seconds after which a worker that no longer registers is removed."""
DRAIN_REQUEST_TTL = 60
"""Seconds after which a request to drain is lost. A live worker looks every three."""


class RedisWorkerRegistry:
    """The registry, for the process of the worker `own`. A worker counts as live for `live` seconds."""

    def __init__(self, scripts: Scripts, keys: Keys, own: str = "", live: float = registry.LIVENESS_TIMEOUT) -> None:
        self._scripts = scripts
        self._client = scripts.client
        self._keys = keys
        self.node_name = own
        self.workspace_key = keys.workspace
        self._live = live

    def register(self, worker: Registration, foreign_tasks: bool) -> WorkspaceIdentity | None:
        """Record that this worker is alive, and return None.

        If the coordinators use another workspace, record nothing and return theirs.
        """
        workspace, record = worker.workspace, _record(worker)
        if worker.drains_for is not None:
            self._leave(worker.pools)
        for pool in worker.pools if worker.drains_for is None else (DRAINING,):
            keys = [self._keys.workspace, *map(self._keys.workers, (COORDINATOR, pool)), self._keys.modules(pool)]
            facts = [self.node_name, record, f"{workspace.id} {workspace.address}", int(pool == COORDINATOR)]
            limits = [self._live, WORKER_TTL, int(foreign_tasks)]
            with translating_errors():
                other = self._scripts.run("register_worker", keys, *facts, *limits)
            if other:
                return _parse_workspace(other)
        return None

    def unregister(self, pools: tuple[str, ...]) -> None:
        """Remove this worker, which ends, from these pools and from DRAINING."""
        self._leave((*pools, DRAINING))

    def _leave(self, pools: tuple[str, ...]) -> None:
        with translating_errors(), self._client.pipeline(transaction=False) as pipe:
            for pool in pools:
                pipe.zrem(self._keys.workers(pool), self.node_name)
                pipe.hdel(self._keys.modules(pool), self.node_name)
            pipe.execute()

    def request_drain(self, name: str, timeout: float | None) -> None:
        """Ask the worker to drain. The request is lost after a minute."""
        text = json.dumps({"timeout": timeout})
        with translating_errors():
            self._client.set(self._keys.drain_request(name), text, ex=DRAIN_REQUEST_TTL)

    def switches(self) -> str | None:
        """Return the switches as JSON, or None if Redis does not have them."""
        with translating_errors():
            found: Any = self._client.hget(self._keys.switches, "switches")
        return None if found is None else str(found)

    def put_switches(self, text: str, revision: int) -> None:
        """Store the switches, unless newer ones are stored."""
        self._scripts.run("put_switches", [self._keys.switches], revision, text)

    def take_drain_request(self) -> DrainRequest | None:
        """Return the request for this worker to drain, once, or None."""
        key = self._keys.drain_request(self.node_name)
        with translating_errors():
            found: Any = self._client.get(key)
            if found is None:
                return None
            self._client.delete(key)
        return DrainRequest(json.loads(found)["timeout"])

    def find(self, name: str) -> registry.RegisteredWorker | None:
        """Return the worker with this node name, or None. Cost: two round trips."""
        names = (*POOLS, DRAINING)
        with translating_errors():
            now = server_time(self._client)
            with self._client.pipeline(transaction=False) as pipe:
                for pool in names:
                    pipe.zscore(self._keys.workers(pool), name)
                    pipe.hmget(self._keys.modules(pool), [name])
                found = pipe.execute()
        known = [(at, record) for at, [record] in zip(*[iter(found)] * 2, strict=True)]
        newest = max(((at, record) for at, record in known if at is not None), key=lambda one: one[0], default=None)
        if newest is None or now - newest[0] > WORKER_TTL:
            return None
        return _parse_worker(name, max(0.0, now - newest[0]), newest[1])

    def seconds_since_registration(self) -> Mapping[str, float | None]:
        """Return for each pool the seconds since one of its workers registered, or None if none did within a day."""
        with translating_errors():
            newest: Any = [self._client.zrange(self._keys.workers(pool), -1, -1, withscores=True) for pool in POOLS]
            now = server_time(self._client)
        last = [found[0][1] if found else None for found in newest]
        return {
            pool: None if at is None or now - at > WORKER_TTL else max(0.0, now - at)
            for pool, at in zip(POOLS, last, strict=True)
        }

    def pool_status(self, pool: str, limit: int) -> PoolStatus:
        """Return the workers of the pool, at most `limit` of them one by one, in three round trips."""
        key = self._keys.workers(pool)
        with translating_errors():
            now = server_time(self._client)
            with self._client.pipeline(transaction=False) as pipe:
                pipe.zcount(key, now - self._live, "+inf")
                pipe.zcount(key, now - WORKER_TTL, "+inf")
                pipe.zrange(key, "+inf", now - WORKER_TTL, True, True, byscore=True, offset=0, num=limit)
                live, registered, newest = pipe.execute()
            names = [name for name, _ in newest]
            listed: Any = self._client.hmget(self._keys.modules(pool), names) if names else []
        found = zip(newest, listed, strict=True)
        workers = [_parse_worker(name, max(0.0, now - at), record) for (name, at), record in found]
        return PoolStatus(int(live), int(registered), workers)

    def workspace(self) -> WorkspaceIdentity | None:
        """Return the workspace of the coordinators, or None if no coordinator has registered."""
        with translating_errors():
            found: Any = self._client.get(self._keys.workspace)
        return _parse_workspace(found or "")


def _record(worker: Registration) -> str:
    load = worker.load
    facts = {"modules": worker.modules, "active": load.active, "running": load.running, "since": load.since}
    facts |= {"pools": worker.pools, "version": worker.version, "drains_for": worker.drains_for}
    return json.dumps(facts)


def _parse_worker(name: str, silent_for: float, record: str | None) -> registry.RegisteredWorker:
    """Return the worker of this record. Workers of earlier releases register fewer facts."""
    found = json.loads(record) if record else {}
    load = WorkerLoad(found.get("active", 0), tuple(found.get("running", ())), tuple(found.get("since", ())))
    pools, version = tuple(found.get("pools", ())), found.get("version", "")
    modules = tuple(found.get("modules", ()))
    return registry.RegisteredWorker(name, silent_for, load, pools, version, found.get("drains_for"), modules)


def _parse_workspace(found: str) -> WorkspaceIdentity | None:
    name, _, address = found.partition(" ")
    return WorkspaceIdentity(name, address) if name else None
