"""Events wait a moment for more, so that many go out together; none waits for a loop that has ended."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from roboco.adapters.celery import consumer
from roboco.adapters.celery.consumer import GuardedConsumer


class Hub:
    """Stands for the worker's main loop: what is to be called soon is, and timers wait in `later`."""

    def __init__(self) -> None:
        self.later: list[tuple[float, Callable[[], None]]] = []

    def call_soon(self, callback: Callable[..., None], *args: Any) -> None:
        """Call it."""
        callback(*args)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> None:
        """Keep it."""
        self.later.append((seconds, callback))


class Dispatcher:
    """Counts."""

    def __init__(self) -> None:
        self.flushed = 0
        self.mutex = threading.Lock()

    def flush(self) -> None:
        """Count."""
        self.flushed += 1


class Clock:
    """A time that stands still."""

    now = 50.0

    def monotonic(self) -> float:
        """The time."""
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(consumer, "time", clock)
    return clock


@pytest.fixture
def guarded() -> GuardedConsumer:
    guarded = GuardedConsumer.__new__(GuardedConsumer)
    guarded.hub, guarded.event_dispatcher, guarded._flush_due = Hub(), Dispatcher(), 0.0
    guarded._stopping = False
    return guarded


def test_events_of_a_moment_go_out_together(guarded: GuardedConsumer, clock: Clock) -> None:
    for _ in range(10):
        guarded.on_send_event_buffered()
    [(seconds, flush)] = guarded.hub.later
    assert (seconds, guarded.event_dispatcher.flushed) == (guarded.event_delay, 0)
    flush()
    assert guarded.event_dispatcher.flushed == 1


def test_a_timer_that_was_lost_is_set_anew(guarded: GuardedConsumer, clock: Clock) -> None:
    guarded.on_send_event_buffered()
    guarded.hub.later.clear()
    clock.now += 2 * guarded.event_delay
    guarded.on_send_event_buffered()
    assert len(guarded.hub.later) == 1


def test_a_lost_connection_is_no_error(guarded: GuardedConsumer, clock: Clock) -> None:
    guarded.on_send_event_buffered()
    guarded.event_dispatcher = None
    [(_, flush)] = guarded.hub.later
    flush()


def test_nothing_waits_for_a_loop_that_has_ended(guarded: GuardedConsumer, clock: Clock) -> None:
    guarded._stopping = True
    guarded.on_send_event_buffered()
    assert (guarded.hub.later, guarded.event_dispatcher.flushed) == ([], 1)
    with guarded.event_dispatcher.mutex:  # as a signal handler finds it that has interrupted a publication
        guarded.on_send_event_buffered()
    assert (guarded.hub.later, guarded.event_dispatcher.flushed) == ([], 1)
