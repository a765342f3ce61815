"""lease_renewals: renewals of 1,000 leases together, against the same renewals one after the other.

Both renew the leases of turns with the same script, alternately in one run: on one Redis, and on a cluster of three
nodes. The bench also measures the CPU time of this process. At last a node of the cluster hangs for some lease times,
from before the first renewal, while the heartbeat renews leases at all nodes.
"""

import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import redis

from roboco.domain.history.state import fold
from roboco.domain.status import TaskStatus
from roboco.engine.heartbeat import LeaseHeartbeat
from roboco.ports.assignment import TurnAssignment
from roboco.ports.lease_renewals import AttemptLease, LeaseStatus
from roboco.ports.leases import TurnClaim
from roboco.ports.task_store import Decision, Phase
from roboco.redis.client import connect, connect_for_renewals
from roboco.redis.keys import Keys
from roboco.redis.large_steps import StoredSteps, no_steps
from roboco.redis.lease_renewals import RedisLeaseRenewals
from roboco.redis.leases import RedisLeases
from roboco.redis.scripts import Scripts
from roboco.redis.task_store import RedisTaskStore
from tests.bench.harness.bench_stack import BenchStack, Size
from tests.bench.harness.results import Figure, Measurement, Result
from tests.contract.samples import make_chain
from tests.support.servers.cluster import Cluster

LEASES = 1_000
LEASE, TIMEOUT = 60.0, 5.0
"""Seconds of a lease, and of the longest wait for a server."""
SHORT_LEASE, HANGING_TIMES, HANGING_NODE, HANGING_LEASES = 3.0, 4, 1, 300
"""Seconds of a lease while a node hangs, for how many lease times it hangs, its number, and the leases at all nodes."""


def measure(stack: BenchStack, size: Size) -> Iterator[Result]:
    """Measure the renewals on one Redis and on a cluster."""
    count = size.of(LEASES, 10)
    yield _measure_on(stack.valkey.url, Keys(f"{stack.settings.prefix}-leases"), count, size.rounds, "one Redis")
    with _cluster() as cluster:
        yield _measure_on(cluster.url, Keys("leases"), count, size.rounds, "a cluster of three nodes")
        yield _measure_hanging(cluster, Keys("hanging"), size)


@contextmanager
def _cluster() -> Iterator[Cluster]:
    with tempfile.TemporaryDirectory(prefix="roboco-bench-cluster-") as folder, Cluster(Path(folder)) as cluster:
        yield cluster


def _measure_on(url: str, keys: Keys, count: int, rounds: int, where: str) -> Result:
    with connect(url) as client, connect_for_renewals(url, TIMEOUT) as renewing_client:
        claims = [_claim_turn(client, keys, f"task_{number}") for number in range(count)]
        leases = RedisLeases(Scripts(client), keys, LEASE, StoredSteps(no_steps))
        renewals = RedisLeaseRenewals(Scripts(renewing_client), keys, LEASE)
        held = [claim.lease for claim in claims]
        ways: dict[str, Callable[[], object]] = {
            "one after the other": lambda: [leases.renew_turn(claim) for claim in claims],
            "together": lambda: renewals.renew(held),
        }
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
        for number in range(rounds + 1):
            for name, act in ways.items():
                times = _timed(act)
                if number:  # the first round opens the connections
                    found[name].append(times)
    wall = {name: tuple(one for one, _ in times) for name, times in found.items()}
    cpu = {name: tuple(one for _, one in times) for name, times in found.items()}
    before, after = ways
    return Result(
        f"lease_renewals, {where}",
        tuple(Measurement(name, tuple((one,) for one in wall[name])) for name in ways),
        (
            Figure("time together / one after the other", _ratios(wall[after], wall[before])),
            Figure("CPU of this process together / one after the other", _ratios(cpu[after], cpu[before])),
            *(Figure(f"CPU of a lease, {name}", tuple(one * 1e6 / count for one in cpu[name]), "µs") for name in ways),
        ),
        (f"{count:,} leases",),
    )


def _measure_hanging(cluster: Cluster, keys: Keys, size: Size) -> Result:
    """Let a node hang. Measure how close the leases at other nodes come to their end, in this process's heartbeat."""
    shortest, threads = list[float](), list[float]()
    with connect(cluster.url) as client, connect_for_renewals(cluster.url, SHORT_LEASE / 6) as renewing_client:
        leases = [AttemptLease(f"work {number}") for number in range(size.of(HANGING_LEASES, 30))]
        watched = {cluster.owner(keys.attempt_lease(lease.key)): lease for lease in leases[:30]}
        for lease in leases:
            RedisLeases(Scripts(client), keys, SHORT_LEASE, StoredSteps(no_steps)).start_attempt(lease.key)
        renewals = RedisLeaseRenewals(Scripts(renewing_client), keys, SHORT_LEASE, Scripts(client))
        heartbeat = LeaseHeartbeat(renewals.renew, renewals.server_of, SHORT_LEASE / 3)
        with ExitStack() as stack:
            for lease in leases:
                stack.enter_context(heartbeat.renewing(lease))
            stack.enter_context(cluster.hanging(HANGING_NODE))
            end = time.monotonic() + HANGING_TIMES * SHORT_LEASE
            while time.monotonic() < end:
                for number in watched.keys() - {HANGING_NODE}:
                    shortest.append(int(cluster.ask(number, "PTTL", keys.attempt_lease(watched[number].key))) / 1000)
                threads.append(sum(one.name.startswith("roboco-heartbeat") for one in threading.enumerate()))
                time.sleep(0.05)
    return Result(
        f"lease_renewals, a node hangs for {HANGING_TIMES * SHORT_LEASE:g} s",
        (),
        (
            Figure(f"shortest rest of a lease of {SHORT_LEASE:g} s at the other nodes", (min(shortest),), "s"),
            Figure("threads of the heartbeat, at most", (max(threads),), "threads"),
        ),
    )


def _ratios(these: tuple[float, ...], others: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(this / other for this, other in zip(these, others, strict=True))


def _timed(act: Callable[[], Any]) -> tuple[float, float]:
    """Return the seconds of wall time and of CPU time that the renewals take. All must succeed."""
    began, cpu = time.monotonic(), time.process_time()
    statuses = act()
    ended = time.monotonic() - began, time.process_time() - cpu
    assert set(statuses) == {LeaseStatus.HELD}
    return ended


def _claim_turn(client: redis.Redis, keys: Keys, task_id: str) -> TurnClaim:
    """Create a task, and claim its first turn."""
    scripts = Scripts(client)
    store = RedisTaskStore(scripts, keys, StoredSteps(no_steps))
    steps = make_chain(1)
    store.create(task_id, steps, fold(steps), ())
    created = store.load(task_id, 1)
    assert created is not None
    decision = Decision(Phase.TURN, TaskStatus.RUNNING, agent="writer")
    epoch = store.record_decision(task_id, created.epoch, decision, ())
    assert epoch is not None
    claim = RedisLeases(scripts, keys, LEASE, StoredSteps(no_steps)).claim_turn(
        TurnAssignment(task_id, 1, epoch, 1), "me", 1
    )
    assert claim is not None
    return claim
