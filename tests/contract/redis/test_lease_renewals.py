"""Renewals of leases: many kinds together, with one round trip to each server, and an error for each lease."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
import redis

from roboco.engine.heartbeat import LeaseHeartbeat
from roboco.errors import TransientError
from roboco.ports.lease_renewals import AttemptLease, Lease, LeaseStatus, TurnLease
from roboco.ports.leases import Leases
from roboco.redis.client import connect, connect_for_renewals
from roboco.redis.keys import Keys
from roboco.redis.leases import RedisLeaseRenewals, RedisLeases
from roboco.redis.scripts import Scripts
from roboco.redis.task_store import StoredSteps, no_steps
from tests.contract.redis.task_on_redis import TaskOnRedis
from tests.contract.redis.task_under_test import LONG_LEASE, TaskUnderTest
from tests.contract.samples import TASK
from tests.support.servers.cluster import PRIMARIES, Cluster
from tests.support.stack import until

HELD, LOST = LeaseStatus.HELD, LeaseStatus.LOST
TIMEOUT = 2.0
"""Seconds for which the renewals of a cluster wait for a node."""


def test_leases_of_all_kinds_are_renewed_together(task: TaskUnderTest) -> None:
    task.create()
    task.record_decision()
    task.leases.start_attempt("a")
    lease = task.claim().lease
    leases: list[Lease] = [lease, AttemptLease("a"), AttemptLease("b"), TurnLease(TASK, lease.epoch, "you")]
    assert task.renewals.renew(leases) == [HELD, HELD, LOST, LOST]
    assert task.renewals.renew([]) == []


@pytest.mark.redis
def test_one_lease_that_cannot_be_sent_to_a_cluster_does_not_affect_the_others(
    cluster_client: redis.Redis, prefix: str
) -> None:
    assert_isolated(TaskOnRedis(cluster_client, Keys(prefix)))


def assert_isolated(task: TaskOnRedis) -> None:
    task.leases.start_attempt("a")
    poison = TurnLease(TASK, 1, "half \ud800")
    first, error, last = task.renewals.renew([AttemptLease("a"), poison, AttemptLease("a")])
    assert (first, last) == (HELD, HELD)
    assert isinstance(error, UnicodeEncodeError)


@pytest.mark.redis
def test_each_lease_has_an_error_if_redis_does_not_answer(unreachable_task: TaskOnRedis) -> None:
    errors = unreachable_task.renewals.renew([AttemptLease("a"), AttemptLease("b")])
    assert [type(error) for error in errors] == [TransientError, TransientError]


def start_attempts(leases: Leases, count: int) -> list[AttemptLease]:
    """Start attempts, whose keys are spread over the slots of a cluster."""
    held = [AttemptLease(f"work {number}") for number in range(count)]
    for lease in held:
        assert leases.start_attempt(lease.key) == 0
    return held


class OnCluster:
    """Twelve attempts on a cluster, and their renewals, which wait for TIMEOUT seconds."""

    def __init__(self, cluster: Cluster, client: redis.Redis, renewing_client: redis.Redis, keys: Keys) -> None:
        self.cluster = cluster
        self.client = renewing_client
        self.keys = keys
        self.leases = start_attempts(RedisLeases(Scripts(client), keys, LONG_LEASE, StoredSteps(no_steps)), 12)
        self.renewals = RedisLeaseRenewals(Scripts(renewing_client), keys, LONG_LEASE, Scripts(client))
        assert self.renewals.renew(self.leases) == [HELD] * 12

    def node_of(self, lease: AttemptLease) -> int:
        """Return the number of the node that has the lease."""
        return self.cluster.owner(self.keys.attempt_lease(lease.key))


@pytest.fixture
def on_cluster(cluster: Cluster, prefix: str) -> Iterator[OnCluster]:
    with connect(cluster.url) as client, connect_for_renewals(cluster.url, TIMEOUT) as renewing_client:
        yield OnCluster(cluster, client, renewing_client, Keys(prefix))


@pytest.mark.redis
def test_the_heartbeat_renews_at_each_node_while_another_hangs(on_cluster: OnCluster) -> None:
    nodes = {on_cluster.node_of(lease): lease for lease in on_cluster.leases}
    heartbeat = LeaseHeartbeat(on_cluster.renewals.renew, on_cluster.renewals.server_of, 0.01)
    with on_cluster.cluster.hanging(1), ExitStack() as stack:
        for lease in nodes.values():
            stack.enter_context(heartbeat.renewing(lease))
        for _ in range(3):
            for number in (0, 2):
                wait_for_renewal(on_cluster.cluster, number, on_cluster.keys.attempt_lease(nodes[number].key))


def wait_for_renewal(cluster: Cluster, number: int, key: str) -> None:
    """Halve the lease, and wait until its renewal makes it longer."""
    half = round(500 * LONG_LEASE)
    cluster.ask(number, "PEXPIRE", key, half)
    until(lambda: int(cluster.ask(number, "PTTL", key)) > half, 60, "the lease is renewed")


@pytest.mark.redis
def test_leases_are_renewed_while_and_after_their_slot_moves_to_another_node(on_cluster: OnCluster) -> None:
    cluster, lease = on_cluster.cluster, on_cluster.leases[0]
    key, source = on_cluster.keys.attempt_lease(lease.key), on_cluster.node_of(lease)
    target = (source + 1) % PRIMARIES
    slot = cluster.ask(source, "CLUSTER", "KEYSLOT", key)
    ids = {number: cluster.ask(number, "CLUSTER", "MYID") for number in (source, target)}
    cluster.ask(target, "CLUSTER", "SETSLOT", slot, "IMPORTING", ids[source])
    cluster.ask(source, "CLUSTER", "SETSLOT", slot, "MIGRATING", ids[target])
    cluster.ask(source, "MIGRATE", "127.0.0.1", cluster.ports[target], key, 0, 5000)
    assert on_cluster.renewals.renew(on_cluster.leases) == [HELD] * 12
    cluster.migrate(key, target)
    assert on_cluster.renewals.renew(on_cluster.leases) == [HELD] * 12
    assert on_cluster.renewals.server_of(lease) == f"127.0.0.1:{cluster.ports[target]}"


@pytest.mark.redis
def test_the_servers_of_leases_are_known_before_the_first_renewal(cluster: Cluster, prefix: str) -> None:
    with connect(cluster.url) as client, connect_for_renewals(cluster.url, TIMEOUT) as renewing_client:
        leases = start_attempts(RedisLeases(Scripts(client), Keys(prefix), LONG_LEASE, StoredSteps(no_steps)), 12)
        renewals = RedisLeaseRenewals(Scripts(renewing_client), Keys(prefix), LONG_LEASE, Scripts(client))
        assert {renewals.server_of(lease) for lease in leases} == {f"127.0.0.1:{port}" for port in cluster.ports}
