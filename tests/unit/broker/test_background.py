"""Background jobs of a worker start and end with it, whenever and however often signals end the worker."""

import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

import pytest
from celery import Celery
from celery.signals import worker_ready, worker_shutting_down

from roboco.broker.background import logged, run_periodically
from roboco.errors import TransientError
from tests.support.stack import until

THREAD_NAME = "background"


class Worker:
    """A substitute for the consumer of an application."""

    def __init__(self) -> None:
        self.app = Celery(set_as_current=False)
        self.runs = 0

    def run(self) -> None:
        """Count a call."""
        self.runs += 1


@pytest.fixture
def worker() -> Iterator[Worker]:
    """Yield a worker whose background job runs all the time, and restore the receivers of the signals afterwards."""
    before = [(signal, list(signal.receivers)) for signal in (worker_ready, worker_shutting_down)]
    made = Worker()
    run_periodically(made.app, THREAD_NAME, 0.001, made.run)
    yield made
    for signal, receivers in before:
        signal.receivers = receivers


def is_running() -> bool:
    """Return True if the background thread runs."""
    return any(thread.name == THREAD_NAME for thread in threading.enumerate())


def test_a_background_job_runs_until_its_worker_shuts_down(worker: Worker) -> None:
    worker_ready.send(sender=Worker())
    assert not is_running()
    worker_ready.send(sender=worker)
    until(lambda: worker.runs > 3, 60, "the background job runs")
    worker_shutting_down.send(sender=THREAD_NAME)
    until(lambda: not is_running(), 60, "the background thread has ended")


def test_a_second_signal_may_arrive_at_every_line_of_the_handler_of_the_first(worker: Worker) -> None:
    """If the first call held a lock, the main thread would wait for itself."""
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
    until(lambda: not is_running(), 60, "the background thread has ended")


@pytest.mark.parametrize("error", [TransientError("redis is silent"), KeyError("a defect")])
def test_an_error_of_a_job_is_logged_and_the_next_run_follows(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise error

    logged(fail, "the scan failed")
    [record] = caplog.records
    assert record.getMessage().startswith("the scan failed")
    assert ("redis is silent" in record.getMessage()) is (record.exc_info is None)
