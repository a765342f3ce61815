"""DrainDeadline: the time at which a worker hands its work over, after a request to drain and after signals."""

import os
import signal
from collections.abc import Iterator

import pytest

from roboco.workers.draining import DrainDeadline

SETTING = 100.0


@pytest.fixture
def deadline() -> Iterator[DrainDeadline]:
    """Yield a deadline whose process handles SIGTERM as a worker does."""
    made = DrainDeadline(SETTING)
    before = signal.signal(signal.SIGTERM, lambda *_: made.begin())
    yield made
    signal.signal(signal.SIGTERM, before)


def terminate() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def left(deadline: DrainDeadline) -> float:
    """Return the seconds that are left, rounded up to tens: a test takes less than ten."""
    seconds = deadline.seconds_left()
    assert seconds is not None
    return -(-seconds // 10) * 10


def test_the_first_signal_begins_the_time_and_the_second_one_ends_it(deadline: DrainDeadline) -> None:
    assert deadline.seconds_left() is None
    terminate()
    assert left(deadline) == SETTING
    assert not deadline.is_shutdown_due()
    terminate()
    assert deadline.is_shutdown_due()


@pytest.mark.parametrize(("asked", "after_signal"), [(600.0, SETTING), (20.0, 20.0), (None, SETTING)])
def test_the_signal_of_a_supervisor_during_a_drain_is_the_first_one(
    deadline: DrainDeadline, asked: float | None, after_signal: float
) -> None:
    deadline.ask(asked)
    assert left(deadline) == (asked or SETTING)
    terminate()
    assert left(deadline) == after_signal
    terminate()
    assert deadline.is_shutdown_due()


def test_a_drain_without_time_hands_the_work_over_at_once(deadline: DrainDeadline) -> None:
    deadline.ask(0)
    assert deadline.is_shutdown_due()
