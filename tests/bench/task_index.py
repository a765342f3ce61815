"""`python -m tests.bench.task_index`: memory and Redis time of the task index with 100,000 entries, on a new server.

The bench starts a Redis server, fills the index, and prints the bytes of an entry with all of its places. For each
read and write it prints the time in Redis' one thread (INFO commandstats) and the CPU time of the client.
"""

import argparse
import random
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from roboco.domain.status import TaskStatus
from roboco.domain.task_entry import TaskEntry
from roboco.domain.task_filter import TaskFilter
from roboco.local.valkey import start_valkey
from roboco.redis.client import connect
from roboco.redis.keys import Keys
from roboco.redis.scripts import Scripts, load_missing, script_texts
from roboco.redis.task_index import RedisTaskIndex

BATCH = 500
"""Entries that are written in one round trip."""
REPETITIONS = 20
WEIGHTS = {TaskStatus.USER_TURN: 60, TaskStatus.APPROVAL: 20, TaskStatus.RUNNING: 10, TaskStatus.PAUSED: 10}
"""Tasks of each status in a hundred."""
COUNTED = ("evalsha", "get", "hmget", "zrange")
"""Commands of the bench. The time of a script includes that of its commands, which are others."""


def main() -> None:
    """Fill the index and print its costs."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.task_index")
    parser.add_argument("--entries", type=int, default=100_000)
    parser.add_argument("--tenants", type=int, default=100, help="0: the tasks have no tenant")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="roboco-index-") as folder:
        server = start_valkey(Path(folder))
        try:
            with connect(server.url) as client:
                _measure(client, options.entries, options.tenants)
        finally:
            server.stop()


def _measure(client: Any, count: int, tenants: int) -> None:
    load_missing(client, script_texts().values())
    index, numbers = RedisTaskIndex(Scripts(client), Keys()), random.Random(1)
    before = client.info("memory")["used_memory"]
    for start in range(0, count, BATCH):
        index.put([_entry(numbers, number, tenants) for number in range(start, min(start + BATCH, count))])
    print(f"{(client.info('memory')['used_memory'] - before) / count:.0f} bytes for each of {count} entries")
    approval = frozenset({TaskStatus.APPROVAL})
    newest = list(index.page(TaskFilter(), "", REPETITIONS).entries)
    changed = [
        entry.model_copy(update={"status": TaskStatus.CANCELLED, "updated_at": datetime.now(UTC)}) for entry in newest
    ]
    reads = {
        "page of 50": TaskFilter(),
        "page of 50, one status": TaskFilter(approval),
        "page of 50, one status of a tenant": TaskFilter(approval, tenant="tenant-0001"),
        "page of 50, one team in fifty": TaskFilter(teams=frozenset({"team-7"})),
        "page with a text that no title has": TaskFilter(text="none"),
    }
    for name, wanted in reads.items():
        _print_cost(client, name, partial(_read, index, wanted))
    _print_cost(client, "write of a changed status", lambda number: index.put([changed[number]]))
    _print_cost(client, "write of the same entry", lambda number: index.put([changed[number]]))


def _read(index: RedisTaskIndex, wanted: TaskFilter, _: int) -> None:
    index.page(wanted)


def _print_cost(client: Any, name: str, act: Callable[[int], object]) -> None:
    before, began = _redis_time(client), time.process_time()
    for number in range(REPETITIONS):
        act(number)
    spent = time.process_time() - began
    redis_time = (_redis_time(client) - before) / REPETITIONS
    print(f"{name}: {redis_time:.0f} µs of Redis, {spent / REPETITIONS * 1e6:.0f} µs of the client's CPU")


def _redis_time(client: Any) -> float:
    """Return the microseconds that Redis has spent on reads outside of scripts, and on scripts."""
    stats = {name.removeprefix("cmdstat_"): float(one["usec"]) for name, one in client.info("commandstats").items()}
    return sum(stats.get(name, 0.0) for name in COUNTED)


def _entry(numbers: random.Random, number: int, tenants: int) -> TaskEntry:
    tenant = f"tenant-{numbers.randrange(tenants):04d}:" if tenants else ""
    at = datetime.now(UTC) - timedelta(seconds=numbers.randrange(10**6))
    return TaskEntry(
        task_id=f"{tenant}task_{numbers.getrandbits(128):032x}",
        team=f"team-{numbers.randrange(50)}",
        title=f"Check the invoice {number} of customer {numbers.randrange(10**6)}",
        status=numbers.choices(list(WEIGHTS), list(WEIGHTS.values()))[0],
        reason="the team waits for its user",
        steps=numbers.randrange(100),
        tokens_in=numbers.randrange(10**6),
        tokens_out=numbers.randrange(10**5),
        cost=round(numbers.random(), 4),
        created_at=at,
        updated_at=at,
        epoch=1_800_000_000_000 + number,
    )


if __name__ == "__main__":
    main()
