"""The record of a fill: its pages are claimed, advanced once, and repeated if their coordinator dies."""

from typing import Any

import pytest

from roboco.domain.ids import SHARDS
from roboco.engine.operate.fill import REFILL_INTERVAL
from roboco.ports.schedule import FillKind, FillPhase, FillPosition, Schedule
from roboco.redis.schedule import FILL_TTL
from tests.contract.redis.task_on_redis import TaskOnRedis
from tests.contract.redis.task_under_test import TaskUnderTest

LONG_CLAIM = 60.0
FIRST = FillPosition(FillKind.REFILL, FillPhase.OPEN)
SECOND = FillPosition(FillKind.REFILL, FillPhase.OPEN, "a|b, c", frozenset(range(SHARDS)), frozenset({0, 15}))


@pytest.fixture
def schedule(task: TaskUnderTest) -> Schedule:
    return task.schedule


def test_the_record_of_a_fill_that_no_coordinator_continues_expires(redis_task: TaskOnRedis) -> None:
    for _ in range(2):
        redis_task.schedule.claim_fill("mark", FIRST, "me", LONG_CLAIM)
        left: Any = redis_task.client.pttl(redis_task.keys.schedule_fill)
        assert 0 < left / 1000 <= FILL_TTL < REFILL_INTERVAL
        redis_task.schedule.advance_fill("me", SECOND)
