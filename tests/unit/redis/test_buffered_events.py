"""Events are buffered for a moment and sent together; none waits for an event loop that has ended."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from roboco.broker import consumer
from roboco.broker.consumer import GuardedConsumer


class StubHub:
    """A substitute for the worker's main loop: it makes immediate calls, and keeps timers in `later`."""

    def __init__(self) -> None:
        self.later: list[tuple[float, Callable[[], None]]] = []

    def call_soon(self, callback: Callable[..., None], *args: Any) -> None:
        """Make the call."""
        callback(*args)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> None:
        """Keep the timer."""
        self.later.append((seconds, callback))


class CountingDispatcher:
    """A dispatcher that counts flushes."""

    def __init__(self) -> None:
        self.flushed = 0
        self.mutex = threading.Lock()

    def flush(self) -> None:
        """Count a flush."""
        self.flushed += 1


class FixedClock:
    """A clock that does not advance by itself."""

    now = 50.0

    def monotonic(self) -> float:
        """Return the time."""
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FixedClock:
    clock = FixedClock()
    monkeypatch.setattr(consumer, "time", clock)
    return clock


@pytest.fixture
def consumer_under_test() -> GuardedConsumer:
    consumer_under_test = GuardedConsumer.__new__(GuardedConsumer)
    consumer_under_test.hub, consumer_under_test.event_dispatcher, consumer_under_test._flush_due = (
        StubHub(),
        CountingDispatcher(),
        0.0,
    )
    consumer_under_test._stopping = False
    return consumer_under_test


def test_events_of_a_moment_are_sent_together(consumer_under_test: GuardedConsumer, clock: FixedClock) -> None:
    for _ in range(10):
        consumer_under_test.on_send_event_buffered()
    [(seconds, flush)] = consumer_under_test.hub.later
    assert (seconds, consumer_under_test.event_dispatcher.flushed) == (consumer_under_test.event_delay, 0)
    flush()
    assert consumer_under_test.event_dispatcher.flushed == 1


def test_a_lost_timer_is_set_again(consumer_under_test: GuardedConsumer, clock: FixedClock) -> None:
    consumer_under_test.on_send_event_buffered()
    consumer_under_test.hub.later.clear()
    clock.now += 2 * consumer_under_test.event_delay
    consumer_under_test.on_send_event_buffered()
    assert len(consumer_under_test.hub.later) == 1


def test_a_flush_without_a_connection_is_no_error(consumer_under_test: GuardedConsumer, clock: FixedClock) -> None:
    consumer_under_test.on_send_event_buffered()
    consumer_under_test.event_dispatcher = None
    [(_, flush)] = consumer_under_test.hub.later
    flush()


def test_events_of_a_stopping_consumer_are_sent_immediately(
    consumer_under_test: GuardedConsumer, clock: FixedClock
) -> None:
    consumer_under_test._stopping = True
    consumer_under_test.on_send_event_buffered()
    assert (consumer_under_test.hub.later, consumer_under_test.event_dispatcher.flushed) == ([], 1)
    with consumer_under_test.event_dispatcher.mutex:  # the state in which a signal handler interrupts a publication
        consumer_under_test.on_send_event_buffered()
    assert (consumer_under_test.hub.later, consumer_under_test.event_dispatcher.flushed) == ([], 1)
