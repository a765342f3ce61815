"""The record of a fill: its pages are claimed, advanced once, and repeated if their coordinator dies."""

from collections.abc import Callable
from typing import Any

import pytest

from roboco.domain.shard import SHARDS
from roboco.engine.operate.fill import REFILL_INTERVAL
from roboco.errors import TransientError
from roboco.ports.fill import FillClaim, FillKind, FillPhase, FillPosition, FillRecord
from roboco.redis.fill import RECORD_TTL
from tests.contract.redis.task_on_redis import TaskOnRedis
from tests.contract.redis.task_under_test import TaskUnderTest

LONG_CLAIM, SHORT_CLAIM = 60.0, 0.03
FIRST = FillPosition(FillKind.REFILL, FillPhase.OPEN)
SECOND = FillPosition(FillKind.REFILL, FillPhase.OPEN, "a|b, c", frozenset(range(SHARDS)), frozenset({0, 15}))
LAST = FillPosition(FillKind.REFILL, FillPhase.DONE, shards=frozenset({3}))


@pytest.fixture
def fill(task: TaskUnderTest) -> FillRecord:
    return task.fill


def test_pages_are_claimed_in_turn(fill: FillRecord) -> None:
    assert fill.claim("mark", FIRST, "me", LONG_CLAIM) == FillClaim(FIRST, True)
    assert fill.claim("mark", FIRST, "you", LONG_CLAIM) == FillClaim(FIRST, False)
    assert fill.claim("mark", FIRST, "me", LONG_CLAIM) == FillClaim(FIRST, True), "its answer was lost"
    assert fill.advance("me", SECOND)
    assert fill.claim("mark", FIRST, "you", LONG_CLAIM) == FillClaim(SECOND, True)
    assert fill.advance("you", LAST)
    assert fill.claim("mark", FIRST, "they", LONG_CLAIM) == FillClaim(LAST, True)
    fill.finish("you")
    assert fill.claim("mark", FIRST, "me", LONG_CLAIM) == FillClaim(LAST, False)
    fill.finish("they")
    assert fill.claim("mark", FIRST, "me", LONG_CLAIM) == FillClaim(FIRST, True), "the next fill"


def test_the_page_of_a_dead_coordinator_is_claimed_again(task: TaskUnderTest) -> None:
    task.fill.claim("mark", FIRST, "dead", SHORT_CLAIM)
    task.pass_time(SHORT_CLAIM)
    assert task.fill.claim("mark", FIRST, "me", LONG_CLAIM) == FillClaim(FIRST, True)
    assert not task.fill.advance("dead", SECOND), "it was only slow"
    task.fill.finish("dead")
    assert task.fill.advance("me", SECOND)
    assert not task.fill.advance("dead", FIRST)
    assert task.fill.claim("mark", FIRST, "you", LONG_CLAIM) == FillClaim(SECOND, True)


def test_an_advance_may_be_repeated(fill: FillRecord) -> None:
    fill.claim("mark", FIRST, "me", LONG_CLAIM)
    assert fill.advance("me", SECOND)
    assert fill.advance("me", SECOND)
    assert not fill.advance("me", LAST)


def test_the_next_page_may_wait(task: TaskUnderTest) -> None:
    task.fill.claim("mark", FIRST, "me", LONG_CLAIM)
    task.fill.advance("me", SECOND, SHORT_CLAIM)
    task.pass_time(SHORT_CLAIM)
    assert task.fill.claim("mark", FIRST, "you", LONG_CLAIM) == FillClaim(SECOND, True)
    task.fill.advance("you", SECOND, LONG_CLAIM)
    assert task.fill.claim("mark", FIRST, "me", LONG_CLAIM) == FillClaim(SECOND, False)


def test_a_fill_with_another_mark_begins_anew(fill: FillRecord) -> None:
    fill.claim("mark", FIRST, "me", LONG_CLAIM)
    fill.advance("me", SECOND)
    fill.claim("mark", FIRST, "me", LONG_CLAIM)
    other = FillPosition(FillKind.RESTARTED, FillPhase.SCHEDULED)
    assert fill.claim("other", other, "you", LONG_CLAIM) == FillClaim(other, True)
    assert not fill.advance("me", SECOND)


def test_a_lost_fill_begins_anew(task: TaskUnderTest) -> None:
    task.fill.claim("mark", FIRST, "me", LONG_CLAIM)
    task.wipe()
    assert not task.fill.advance("me", SECOND)
    assert task.fill.claim("mark", FIRST, "you", LONG_CLAIM) == FillClaim(FIRST, True)


def test_the_record_of_a_fill_that_no_coordinator_continues_expires(redis_task: TaskOnRedis) -> None:
    for _ in range(2):
        redis_task.fill.claim("mark", FIRST, "me", LONG_CLAIM)
        left: Any = redis_task.client.pttl(redis_task.keys.schedule_fill)
        assert 0 < left / 1000 <= RECORD_TTL < REFILL_INTERVAL
        redis_task.fill.advance("me", SECOND)


def test_an_unreachable_redis_raises_a_transient_error(unreachable_task: TaskOnRedis) -> None:
    fill = unreachable_task.fill
    uses: list[Callable[[], object]] = [
        lambda: fill.claim("mark", FIRST, "me", 1),
        lambda: fill.advance("me", FIRST),
        lambda: fill.finish("me"),
    ]
    for use in uses:
        with pytest.raises(TransientError, match="redis does not answer"):
            use()
