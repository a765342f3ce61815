"""A node of a cluster that hangs delays the tasks of its shards, and of no others."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from redis.connection import AbstractConnection

from roboco.domain.ids import SHARDS, shard_of
from roboco.domain.task_filter import TaskFilter
from roboco.engine.engine import Engine
from roboco.engine.operate.sweep import sweep_shard
from roboco.errors import TransientError
from roboco.redis import client as redis_client
from roboco.redis.client import connect
from roboco.redis.keys import Keys
from roboco.redis.leases import RedisLeases
from roboco.redis.schedule import RedisSchedule
from roboco.redis.scripts import Scripts, load_missing, script_texts
from roboco.redis.task_index import RedisTaskIndex
from roboco.redis.task_store import StoredSteps, no_steps
from tests.contract.redis.task_under_test import LONG_LEASE
from tests.support.memory_ports.journeys import MANUAL
from tests.support.memory_ports.parts import with_parts
from tests.support.servers.cluster import PRIMARIES, Cluster

pytestmark = pytest.mark.redis

TIMEOUT = 2.0
"""Seconds for which the client waits for a node."""
TASKS = [f"task_{number}" for number in range(60)] + [f"acme:order.{number}" for number in range(60)]


@pytest.fixture
def client(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[redis.Redis]:
    monkeypatch.setattr(redis_client, "TIMEOUT", TIMEOUT)
    with connect(cluster.url) as client:
        yield client


@pytest.fixture
def timeouts(monkeypatch: pytest.MonkeyPatch) -> Counter[int]:
    """Count the answers for which connections to Redis wait in vain, by the port of the server."""
    counts = Counter[int]()
    read: Any = AbstractConnection.read_response

    def count(self: Any, *args: Any, **options: Any) -> Any:
        try:
            return read(self, *args, **options)
        except redis.TimeoutError:
            counts[self.port] += 1
            raise

    monkeypatch.setattr(AbstractConnection, "read_response", count)
    return counts


class OnCluster:
    """A schedule with due tasks on a cluster, and an engine that sweeps it. Its workspace is in memory."""

    def __init__(self, cluster: Cluster, client: redis.Redis, keys: Keys) -> None:
        load_missing(client, script_texts().values())
        self.client = client
        self.keys = keys
        self.schedule = RedisSchedule(Scripts(client), keys)
        leases = RedisLeases(Scripts(client), keys, LONG_LEASE, StoredSteps(no_steps))
        ports: dict[str, Any] = {"schedule": self.schedule, "leases": leases}
        self.engine = with_parts(MANUAL.world().engine, **ports)
        self.nodes = {task_id: cluster.owner(keys.state(task_id)) for task_id in TASKS}
        self.shards = {shard: cluster.owner(keys.schedule(shard)) for shard in range(SHARDS)}
        self.schedule.mark_filled(3600)
        self.schedule.enter(TASKS)
        self.passes = list[str]()
        self.ready = list[str]()

    def sweep(self, shard: int) -> int:
        """Sweep the due tasks of the shard. Their passes ask if the task may end."""

        def run_pass(engine: Engine, task_id: str, by_sweeper: bool) -> None:
            self.passes.append(task_id)
            if engine.tasks.schedule.recovered_instance(task_id):
                self.ready.append(task_id)

        return sweep_shard(self.engine, shard, len(TASKS), run_pass)


@pytest.fixture
def on_cluster(cluster: Cluster, client: redis.Redis, prefix: str) -> OnCluster:
    return OnCluster(cluster, client, Keys(prefix))


def test_a_node_that_hangs_delays_no_task_of_other_nodes(
    cluster: Cluster, on_cluster: OnCluster, timeouts: Counter[int]
) -> None:
    silent = other_than(cluster.owner(on_cluster.keys.sentinel))
    # The border between two nodes lies inside a shard, whose tasks are on both.
    mixed = {shard for shard in range(SHARDS) if len(nodes_of(on_cluster, shard)) > 1}
    healthy = {shard for shard, node in on_cluster.shards.items() if node != silent} - mixed
    with cluster.hanging(silent):
        for shard in sorted(healthy):
            assert on_cluster.sweep(shard)
    assert not timeouts
    assert set(on_cluster.passes) == set(on_cluster.ready) == {one for one in TASKS if shard_in(one, healthy)}


def test_a_pipeline_waits_for_one_time_out_of_a_node(
    cluster: Cluster, on_cluster: OnCluster, client: redis.Redis, timeouts: Counter[int]
) -> None:
    index = RedisTaskIndex(Scripts(client), on_cluster.keys)
    assert index.page(TaskFilter()).entries == ()
    assert on_cluster.schedule.count() == len(TASKS)
    node = cluster.owner(on_cluster.keys.index_order())
    with cluster.hanging(node):
        for use in (lambda: index.page(TaskFilter()), on_cluster.schedule.count):
            timeouts.clear()
            with pytest.raises(TransientError):
                use()
            assert timeouts[cluster.ports[node]] == 1


def other_than(node: int) -> int:
    """Return the number of another node."""
    return (node + 1) % PRIMARIES


def nodes_of(on_cluster: OnCluster, shard: int) -> set[int]:
    """Return the nodes of the shard and of its tasks."""
    tasks = {node for task_id, node in on_cluster.nodes.items() if shard_in(task_id, {shard})}
    return {on_cluster.shards[shard], *tasks}


def shard_in(task_id: str, shards: set[int]) -> bool:
    return shard_of(task_id) in shards
