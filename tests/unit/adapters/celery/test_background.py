"""What a worker does beside its work begins and ends with it, however many signals end it, and whenever they come."""

import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

import pytest
from celery import Celery
from celery.signals import worker_ready, worker_shutting_down

from roboco.adapters.celery.background import run_periodically
from tests.support.stack import until

NAME = "beside"


class Worker:
    """Stands for the consumer of an application."""

    def __init__(self) -> None:
        self.app = Celery(set_as_current=False)
        self.acts = 0

    def act(self) -> None:
        """Count."""
        self.acts += 1


@pytest.fixture
def worker() -> Iterator[Worker]:
    """A worker that acts all the time; signals have forgotten it in the end."""
    before = [(signal, list(signal.receivers)) for signal in (worker_ready, worker_shutting_down)]
    made = Worker()
    run_periodically(made.app, NAME, 0.001, made.act)
    yield made
    for signal, receivers in before:
        signal.receivers = receivers


def working() -> bool:
    """Whether the thread is there."""
    return any(thread.name == NAME for thread in threading.enumerate())


def test_it_acts_until_its_worker_is_told_to_end(worker: Worker) -> None:
    worker_ready.send(sender=Worker())
    assert not working()
    worker_ready.send(sender=worker)
    until(lambda: worker.acts > 3, 10, "it acts")
    worker_shutting_down.send(sender=NAME)
    until(lambda: not working(), 10, "it has ended")


def test_a_signal_at_every_line_of_what_the_signal_before_does(worker: Worker) -> None:
    """Where the one before had taken a lock, the main thread would now wait for itself."""
    worker_ready.send(sender=worker)
    end = worker_shutting_down.receivers[-1][1]
    lines = 0

    def interrupt(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal lines
        if event == "line":
            lines += 1
            sys.settrace(None)
            end()
            sys.settrace(interrupt)
        return interrupt

    def end_traced() -> None:
        sys.settrace(interrupt)
        try:
            end()
        finally:
            sys.settrace(None)

    signalled = threading.Thread(target=end_traced, daemon=True)
    signalled.start()
    signalled.join(10)
    assert not signalled.is_alive()
    assert lines > 0
    until(lambda: not working(), 10, "it has ended")
