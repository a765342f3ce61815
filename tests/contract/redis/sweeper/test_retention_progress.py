"""The progress of the retention's scan: one coordinator scans, and no position is overwritten."""

import time
from dataclasses import replace

import pytest
import redis

from roboco.ports.retention_progress import RetentionProgress, RetentionScan
from roboco.redis.keys import Keys
from roboco.redis.retention_progress import RedisRetentionProgress
from roboco.redis.scripts import Scripts
from tests.support.memory_ports.clock import ManualClock
from tests.support.memory_ports.retention import MemoryRetentionProgress
from tests.support.memory_ports.server import MemoryServer

SCAN = RetentionScan("scan", "rules", began=1.5, after="task 7", tasks_read=3, due=1, next_page=2.5)


@pytest.fixture(
    params=[
        pytest.param("client", marks=pytest.mark.redis),
        pytest.param("cluster_client", marks=pytest.mark.redis),
        "memory",
    ]
)
def progress(request: pytest.FixtureRequest, prefix: str) -> RetentionProgress:
    """Return the progress of a scan that has not begun."""
    if request.param == "memory":
        return MemoryRetentionProgress(MemoryServer(), ManualClock(time.time()))
    client: redis.Redis = request.getfixturevalue(request.param)
    return RedisRetentionProgress(Scripts(client), Keys(prefix))


def test_progress_is_read_as_it_was_saved(progress: RetentionProgress) -> None:
    assert progress.load() is None
    assert progress.save(None, SCAN)
    assert progress.load() == SCAN
    assert progress.save(None, SCAN), "the answer may have been lost"


def test_progress_that_another_coordinator_has_changed_is_not_replaced(progress: RetentionProgress) -> None:
    later = replace(SCAN, tasks_read=200)
    assert progress.save(None, SCAN)
    assert progress.save(SCAN, later)
    assert not progress.save(SCAN, replace(SCAN, tasks_read=100))
    assert progress.load() == later


def test_one_coordinator_scans_at_a_time(progress: RetentionProgress) -> None:
    assert progress.lock("one", 60)
    assert progress.lock("one", 60)
    assert not progress.lock("two", 60)


def test_the_time_is_that_of_the_server(progress: RetentionProgress) -> None:
    assert abs(progress.now() - time.time()) < 60
