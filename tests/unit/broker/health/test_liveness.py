"""Liveness: the times of the last signs of life that make a worker healthy."""

import pytest

from roboco.broker.health.liveness import MAX_BUSY_SECONDS, MAX_UNANSWERED, Liveness, Load, Probe

MAX_SILENCE = 60.0
IDLE_LOAD = Load(started=5, active=0, slots=2)
FULL_LOAD = Load(started=5, active=2, slots=2)
SATURATED_LOAD = Load(started=5, active=2, slots=2, saturated=True)


def new_liveness() -> Liveness:
    """Return a liveness state in which every sign of life was seen at time 0."""
    return Liveness(MAX_SILENCE, received_at=0, pool_answered_at=0, slot_free_at=0)


@pytest.mark.parametrize(
    ("load", "now", "words"),
    [
        (IDLE_LOAD, MAX_SILENCE, None),
        (IDLE_LOAD, MAX_SILENCE + 1, "its own message"),
        (FULL_LOAD, MAX_SILENCE + 1, "its own message"),
        (SATURATED_LOAD, MAX_SILENCE + 1, None),
        (Load(started=5, active=0, slots=2, missing=("roboco.agents",)), 1, "does not consume roboco.agents"),
    ],
)
def test_the_problem_of_a_silent_worker_depends_on_its_load(load: Load, now: float, words: str | None) -> None:
    """Only a worker that may fetch no more messages need not receive its own."""
    liveness = new_liveness()
    liveness.update(1, load)
    liveness.update(now, load)
    found = liveness.problem(now)
    assert found is None if words is None else words in str(found)


def test_a_full_pool_is_unhealthy_after_starting_nothing_for_too_long() -> None:
    liveness = new_liveness()
    liveness.update(0, SATURATED_LOAD)
    liveness.update(MAX_BUSY_SECONDS, SATURATED_LOAD)
    assert liveness.problem(MAX_BUSY_SECONDS) is None
    liveness.update(MAX_BUSY_SECONDS + 1, SATURATED_LOAD)
    assert "all 2 slots of its pool have been busy" in str(liveness.problem(MAX_BUSY_SECONDS + 1))
    liveness.update(MAX_BUSY_SECONDS + 2, Load(started=6, active=2, slots=2, saturated=True))
    assert liveness.problem(MAX_BUSY_SECONDS + 2) is None


def test_an_unanswered_probe_is_repeated_a_limited_number_of_times() -> None:
    """A lost probe must not make a worker unhealthy, and a stuck pool must not receive probes without bound."""
    probe = Probe(interval=10)
    assert [now for now in range(0, 200, 5) if probe.due(now, 0)] == [10, 20, 30, 40][:MAX_UNANSWERED]
    probe.unanswered = 0
    assert not probe.due(205, 200)
    assert probe.due(210, 200)
