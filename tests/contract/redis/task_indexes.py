"""The task index on each implementation, and entries that differ in what a test names."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import redis

from roboco.domain.status import TaskStatus
from roboco.domain.task_entry import TaskEntry
from roboco.ports.task_index import TaskIndex
from roboco.redis.keys import Keys
from roboco.redis.scripts import Scripts
from roboco.redis.task_index import RedisTaskIndex
from tests.support.memory_ports.clock import ManualClock
from tests.support.memory_ports.server import MemoryServer
from tests.support.memory_ports.task_index import MemoryTaskIndex

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
INDEX_KINDS = [
    pytest.param("redis", marks=pytest.mark.redis),
    pytest.param("redis, all sent twice", marks=pytest.mark.redis),
    pytest.param("cluster", marks=pytest.mark.redis),
    "memory",
]


@dataclass(frozen=True)
class Indexes:
    """One task index."""

    index: TaskIndex


def index_on_redis(client: redis.Redis, prefix: str) -> Indexes:
    """Return the index on this Redis."""
    scripts, keys = Scripts(client), Keys(prefix)
    return Indexes(RedisTaskIndex(scripts, keys))


def index_in_memory() -> Indexes:
    """Return an index in memory."""
    return Indexes(MemoryTaskIndex(MemoryServer(), ManualClock()))


def entry(task_id: str, minute: float = 0, status: TaskStatus = TaskStatus.RUNNING, **fields: Any) -> TaskEntry:
    """Return the entry of a task whose status has changed this number of minutes after noon."""
    at = NOON + timedelta(minutes=minute)
    return TaskEntry.model_validate(
        {"task_id": task_id, "team": "desk", "status": status, "created_at": NOON, "updated_at": at} | fields
    )


def ids_of(index: TaskIndex, *arguments: Any) -> list[str]:
    """Return the ids of the tasks on all pages."""
    return [one.task_id for one in entries_of(index, *arguments)]


def entries_of(index: TaskIndex, wanted: Any, limit: int = 50) -> Iterator[TaskEntry]:
    """Yield the entries of all pages."""
    page = index.page(wanted, "", limit)
    while True:
        assert len(page.entries) <= limit
        yield from page.entries
        if not page.cursor:
            return
        page = index.page(wanted, page.cursor, limit)
