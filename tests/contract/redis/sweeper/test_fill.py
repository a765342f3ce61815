"""The record of a fill: its pages are claimed, advanced once, and repeated if their coordinator dies."""

from collections.abc import Callable
from typing import Any

import pytest

from roboco.domain.shard import SHARDS
from roboco.engine.operate.fill import REFILL_INTERVAL
from roboco.errors import TransientError
from roboco.ports.fill import FillClaim, FillKind, FillPhase, FillPosition
from roboco.ports.schedule import Schedule
from roboco.redis.schedule import FILL_TTL
from tests.contract.redis.task_on_redis import TaskOnRedis
from tests.contract.redis.task_under_test import TaskUnderTest

LONG_CLAIM = 60.0
FIRST = FillPosition(FillKind.REFILL, FillPhase.OPEN)
SECOND = FillPosition(FillKind.REFILL, FillPhase.OPEN, "a|b, c", frozenset(range(SHARDS)), frozenset({0, 15}))
LAST = FillPosition(FillKind.REFILL, FillPhase.DONE, shards=frozenset({3}))


@pytest.fixture
def schedule(task: TaskUnderTest) -> Schedule:
    return task.schedule


def test_pages_are_claimed_in_turn(schedule: Schedule) -> None:
    assert schedule.claim_fill("mark", FIRST, "me", LONG_CLAIM) == FillClaim(FIRST, True)
    assert schedule.claim_fill("mark", FIRST, "you", LONG_CLAIM) == FillClaim(FIRST, False)
    assert schedule.claim_fill("mark", FIRST, "me", LONG_CLAIM) == FillClaim(FIRST, True), "its answer was lost"
    assert schedule.advance_fill("me", SECOND)
    assert schedule.claim_fill("mark", FIRST, "you", LONG_CLAIM) == FillClaim(SECOND, True)
    assert schedule.advance_fill("you", LAST)
    assert schedule.claim_fill("mark", FIRST, "they", LONG_CLAIM) == FillClaim(LAST, True)
    schedule.finish_fill("you")
    assert schedule.claim_fill("mark", FIRST, "me", LONG_CLAIM) == FillClaim(LAST, False)
    schedule.finish_fill("they")
    assert schedule.claim_fill("mark", FIRST, "me", LONG_CLAIM) == FillClaim(FIRST, True), "the next fill"


def test_the_record_of_a_fill_that_no_coordinator_continues_expires(redis_task: TaskOnRedis) -> None:
    for _ in range(2):
        redis_task.schedule.claim_fill("mark", FIRST, "me", LONG_CLAIM)
        left: Any = redis_task.client.pttl(redis_task.keys.schedule_fill)
        assert 0 < left / 1000 <= FILL_TTL < REFILL_INTERVAL
        redis_task.schedule.advance_fill("me", SECOND)


def test_an_unreachable_redis_raises_a_transient_error(unreachable_task: TaskOnRedis) -> None:
    schedule = unreachable_task.schedule
    uses: list[Callable[[], object]] = [
        lambda: schedule.claim_fill("mark", FIRST, "me", 1),
        lambda: schedule.advance_fill("me", FIRST),
        lambda: schedule.finish_fill("me"),
    ]
    for use in uses:
        with pytest.raises(TransientError, match="redis does not answer"):
            use()
