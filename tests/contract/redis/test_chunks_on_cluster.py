"""Chunks on a Redis Cluster: those that arrive together share a round trip, and wait only for their own node."""

from collections.abc import Iterator
from typing import Any

import pytest
import redis

from roboco.ports.assignment import TurnAssignment
from roboco.ports.lease_renewals import LeaseStatus
from roboco.ports.leases import Chunk, TurnClaim
from roboco.redis.client import connect
from roboco.redis.keys import Keys
from roboco.redis.leases import RedisLeases
from roboco.redis.scripts import Scripts
from roboco.redis.task_store import StoredSteps, no_steps
from tests.contract.redis.task_under_test import LONG_LEASE
from tests.contract.samples import USAGE, text_chunk
from tests.support.servers.cluster import Cluster
from tests.support.stack import until

pytestmark = pytest.mark.redis


@pytest.fixture
def client(cluster: Cluster) -> Iterator[redis.Redis]:
    with connect(cluster.url) as client:
        yield client


def lost_claim(task_id: str) -> TurnClaim:
    """Return a claim of a task that Redis does not hold: its chunks are refused."""
    snapshot: Any = None  # is not used
    return TurnClaim(TurnAssignment(task_id, 1, 1, 1), "me", snapshot)


def test_a_chunk_does_not_wait_for_another_node(cluster: Cluster, client: redis.Redis, prefix: str) -> None:
    keys = Keys(prefix)
    leases = RedisLeases(Scripts(client), keys, LONG_LEASE, StoredSteps(no_steps))
    tasks = {cluster.owner(keys.state(task_id)): task_id for task_id in (f"task_{number}" for number in range(20))}
    acknowledged = list[tuple[int, LeaseStatus | Exception]]()

    def emit(number: int) -> None:
        chunk = Chunk(1, text_chunk("a"), USAGE)
        leases.emit(lost_claim(tasks[number]), chunk, lambda answer: acknowledged.append((number, answer)))

    for number in sorted(tasks):
        emit(number)
    until(lambda: len(acknowledged) == 3, 60, "the nodes have loaded the script")
    acknowledged.clear()
    with cluster.hanging(1):
        emit(1)
        emit(0)
        emit(2)
        until(lambda: len(acknowledged) >= 2, 60, "the other nodes have answered")
    assert sorted(acknowledged[:2]) == [(0, LeaseStatus.LOST), (2, LeaseStatus.LOST)]
    until(lambda: len(acknowledged) == 3, 60, "the node has answered, or too late")
