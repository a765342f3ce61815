"""Pulse: which last times make a worker healthy."""

import pytest

from roboco.adapters.celery.health.liveness import MAX_BUSY_SECONDS, MAX_UNANSWERED, Liveness, Load, Probe

LIMIT = 60.0
IDLE = Load(started=5, active=0, slots=2)
FULL = Load(started=5, active=2, slots=2)
SATURATED = Load(started=5, active=2, slots=2, saturated=True)


def pulse() -> Liveness:
    """A pulse of which everything was seen at 0."""
    return Liveness(LIMIT, received_at=0, pool_answered_at=0, slot_free_at=0)


@pytest.mark.parametrize(
    ("load", "now", "words"),
    [
        (IDLE, LIMIT, None),
        (IDLE, LIMIT + 1, "its own message"),
        (FULL, LIMIT + 1, "its own message"),
        (SATURATED, LIMIT + 1, None),
        (Load(started=5, active=0, slots=2, missing=("roboco.agents",)), 1, "does not consume roboco.agents"),
    ],
)
def test_what_its_load_says_in_time(load: Load, now: float, words: str | None) -> None:
    """Only what may fetch no more need not get its own messages."""
    one = pulse()
    one.update(1, load)
    one.update(now, load)
    found = one.problem(now)
    assert found is None if words is None else words in str(found)


def test_a_pool_that_does_not_answer() -> None:
    one = pulse()
    for now in range(0, 100, 5):
        one.received_at = now
        one.update(now, IDLE)
        assert (one.problem(now) is None) == (now <= LIMIT)
    assert "its pool has free slots" in str(one.problem(99))


def test_a_full_pool_is_busy_until_nothing_has_begun_for_long() -> None:
    one = pulse()
    one.update(0, SATURATED)
    one.update(MAX_BUSY_SECONDS, SATURATED)
    assert one.problem(MAX_BUSY_SECONDS) is None
    one.update(MAX_BUSY_SECONDS + 1, SATURATED)
    assert "all 2 slots of its pool have been busy" in str(one.problem(MAX_BUSY_SECONDS + 1))
    one.update(MAX_BUSY_SECONDS + 2, Load(started=6, active=2, slots=2, saturated=True))
    assert one.problem(MAX_BUSY_SECONDS + 2) is None


def test_a_question_is_asked_again_and_not_without_end() -> None:
    """One that got lost must not make a worker ill, and a pool that is stuck must not drown in them."""
    question = Probe(interval=10)
    assert [now for now in range(0, 200, 5) if question.due(now, 0)] == [10, 20, 30, 40][:MAX_UNANSWERED]
    question.unanswered = 0
    assert not question.due(205, 200)
    assert question.due(210, 200)
