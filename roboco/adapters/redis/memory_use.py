"""The use of memory of each Redis server, read when a task is submitted, and at most once a second."""

import time
from typing import Any, Final

import redis

from roboco.adapters.redis.cluster import LazyCluster
from roboco.adapters.redis.scripts import translating_errors

MAX_AGE: Final = 1.0
"""Seconds for which a reading counts."""


class MemoryUse:
    """The newest reading of each server."""

    def __init__(self) -> None:
        self._readings: dict[str, tuple[float, float]] = {}

    def share(self, client: redis.Redis, server: str, key: str) -> float:
        """Return the part of `maxmemory` that the server of this key uses, or 0 if it has no limit."""
        read_at, share = self._readings.get(server, (-MAX_AGE, 0.0))
        if (now := time.monotonic()) >= read_at + MAX_AGE:
            share = _read(client, key)
            self._readings[server] = now, share
        return share


def _read(client: Any, key: str) -> float:
    node = {"target_nodes": client.get_node_from_key(key)} if isinstance(client, LazyCluster) else {}
    with translating_errors():
        facts = client.info("memory", **node)
    most = int(facts.get("maxmemory", 0))
    return int(facts["used_memory"]) / most if most else 0.0
