"""Pulse: which last times make a worker healthy."""

import pytest

from roboco.adapters.celery.health.liveness import BUSY, OPEN, Load, Pulse, Question

LIMIT = 60.0
IDLE = Load(begun=5, active=0, places=2)
FULL = Load(begun=5, active=2, places=2)
SATURATED = Load(begun=5, active=2, places=2, saturated=True)


def pulse() -> Pulse:
    """A pulse of which everything was seen at 0."""
    return Pulse(LIMIT, taken=0, answered=0, moved=0)


@pytest.mark.parametrize(
    ("load", "now", "words"),
    [
        (IDLE, LIMIT, None),
        (IDLE, LIMIT + 1, "its own message"),
        (FULL, LIMIT + 1, "its own message"),
        (SATURATED, LIMIT + 1, None),
        (Load(begun=5, active=0, places=2, missing=("roboco.agents",)), 1, "does not consume roboco.agents"),
    ],
)
def test_what_its_load_says_in_time(load: Load, now: float, words: str | None) -> None:
    """Only what may fetch no more need not get its own messages."""
    one = pulse()
    one.beat(1, load)
    one.beat(now, load)
    found = one.problem(now)
    assert found is None if words is None else words in str(found)


def test_a_pool_that_does_not_answer() -> None:
    one = pulse()
    for now in range(0, 100, 5):
        one.taken = now
        one.beat(now, IDLE)
        assert (one.problem(now) is None) == (now <= LIMIT)
    assert "its pool has free slots" in str(one.problem(99))


def test_a_full_pool_is_busy_until_nothing_has_begun_for_long() -> None:
    one = pulse()
    one.beat(0, SATURATED)
    one.beat(BUSY, SATURATED)
    assert one.problem(BUSY) is None
    one.beat(BUSY + 1, SATURATED)
    assert "all 2 slots of its pool have been busy" in str(one.problem(BUSY + 1))
    one.beat(BUSY + 2, Load(begun=6, active=2, places=2, saturated=True))
    assert one.problem(BUSY + 2) is None


def test_a_question_is_asked_again_and_not_without_end() -> None:
    """One that got lost must not make a worker ill, and a pool that is stuck must not drown in them."""
    question = Question(pause=10)
    assert [now for now in range(0, 200, 5) if question.due(now, 0)] == [10, 20, 30, 40][:OPEN]
    question.open = 0
    assert not question.due(205, 200)
    assert question.due(210, 200)
