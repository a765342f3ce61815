"""Metrics: what a worker's processes tell, and what becomes of children that are gone."""

import os
import select
import signal
import socket
import threading
import urllib.request
from collections.abc import Callable, Iterator

import pytest

from roboco.adapters.local.process import free_port
from roboco.adapters.telemetry.backlog_gauges import BacklogGauges
from roboco.adapters.telemetry.metrics import MAX_LABEL_CHARS, MAX_LABEL_VALUES, OTHER_VALUE, Metrics
from roboco.adapters.telemetry.metrics_server import serve_metrics
from roboco.errors import TransientError, UsageError
from roboco.ports.telemetry import (
    LEASE_EXPIRATIONS,
    OPEN_STREAMS,
    QUEUE_WAIT_SECONDS,
    TOKENS,
    TOOL_SECONDS,
    TURN_SECONDS,
)
from tests.support.stack import until

# a worker forks its children while its own threads run, and so does this
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


@pytest.fixture
def metrics() -> Iterator[Metrics]:
    made = Metrics()
    yield made
    made.close()


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


def child(work: Callable[[], None]) -> int:
    """Do the work in a forked child: its process id."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        finally:
            os._exit(0)
    return pid


def test_each_kind_of_figure(metrics: Metrics) -> None:
    metrics.record(TOKENS, 10, "in", "small")
    metrics.record(TOKENS, 5, "in", "small")
    metrics.record(TURN_SECONDS, 0.2, "small")
    metrics.record(TURN_SECONDS, 700.0, "small")
    metrics.record(OPEN_STREAMS, 1)
    metrics.record(OPEN_STREAMS, 1)
    metrics.record(OPEN_STREAMS, -1)
    assert value(metrics, "roboco_tokens_total", direction="in", model="small") == 15
    assert value(metrics, "roboco_turn_seconds_count", model="small") == 2
    assert value(metrics, "roboco_turn_seconds_bucket", model="small", le="0.25") == 1
    assert value(metrics, "roboco_open_streams") == 1
    assert value(metrics, "roboco_lease_expirations_total", kind="turn") == 0


def test_clocks_that_differ_take_no_time_back(metrics: Metrics) -> None:
    metrics.record(QUEUE_WAIT_SECONDS, -3.0, "q")
    assert value(metrics, "roboco_queue_wait_seconds_sum", queue="q") == 0


def test_a_label_keeps_to_its_first_values(metrics: Metrics) -> None:
    for number in range(MAX_LABEL_VALUES + 20):
        metrics.record(TOOL_SECONDS, 0.1, f"tool{number}", "ok")
    metrics.record(TOOL_SECONDS, 0.1, "tool0", "error")
    assert value(metrics, "roboco_tool_seconds_count", tool=OTHER_VALUE, outcome="ok") == 20
    assert value(metrics, "roboco_tool_seconds_count", tool="tool0", outcome="error") == 1
    assert value(metrics, "roboco_tool_seconds_count", tool=f"tool{MAX_LABEL_VALUES}", outcome="ok") is None


def test_a_long_value_is_cut(metrics: Metrics) -> None:
    metrics.record(TURN_SECONDS, 1.0, "m" * 5000)
    assert value(metrics, "roboco_turn_seconds_count", model="m" * MAX_LABEL_CHARS) == 1


def test_children_tell_the_first_process_whether_they_live_or_not(metrics: Metrics) -> None:
    def work() -> None:
        metrics.record(LEASE_EXPIRATIONS, 1, "tool")
        metrics.record(OPEN_STREAMS, 1)
        os.kill(os.getpid(), signal.SIGKILL)

    metrics.record(OPEN_STREAMS, 1)
    for pid in [child(work) for _ in range(3)]:
        os.waitpid(pid, 0)
    until(lambda: value(metrics, "roboco_lease_expirations_total", kind="tool") == 3, 5, "three children have told")
    until(lambda: value(metrics, "roboco_open_streams") == 1, 5, "only the living count")


def test_what_a_child_of_a_child_tells(metrics: Metrics) -> None:
    def work() -> None:
        os.waitpid(child(lambda: metrics.record(TOKENS, 7, "out", "small")), 0)

    os.waitpid(child(work), 0)
    until(lambda: value(metrics, "roboco_tokens_total", direction="out", model="small") == 7, 5, "it was told")


def test_a_full_pipe_holds_nobody_up_and_what_is_lost_is_counted() -> None:
    """The first process stands still: here, since it cannot take in what it was told."""
    metrics = Metrics()
    goes_on, told = os.pipe(), os.pipe()
    tells = 10_000  # more than a pipe takes while its reader holds as much again
    with metrics._values._lock:

        def work() -> None:
            for _ in range(tells):
                metrics.record(TOKENS, 1, "in", "small")
            os.write(told[1], b".")
            os.read(goes_on[0], 1)
            metrics.record(TOKENS, 1, "in", "small")

        pid = child(work)
        os.read(told[0], 1)
    until(lambda: not select.select([metrics._read_from], [], [], 0)[0], 10, "the pipe is empty")
    os.write(goes_on[1], b".")
    os.waitpid(pid, 0)

    def all_told() -> bool:
        lost = value(metrics, "roboco_metric_values_dropped_total") or 0.0
        came = value(metrics, "roboco_tokens_total", direction="in", model="small") or 0.0
        return lost > 0 and lost + came == tells + 1

    until(all_told, 10, "each value came or is counted as lost")
    metrics.close()
    for descriptor in (*goes_on, *told):
        os.close(descriptor)


def test_figures_are_served_and_a_child_does_not_keep_the_port(metrics: Metrics) -> None:
    port = free_port()
    taken = f"metrics cannot be served at 127.0.0.1:{port}: .*ROBOCO_METRICS_PORT"
    with socket.create_server(("127.0.0.1", port)), pytest.raises(UsageError, match=taken):
        serve_metrics(metrics.registry, "127.0.0.1", port)
    server = serve_metrics(metrics.registry, "127.0.0.1", port)
    reading, writing = os.pipe()
    waiting: list[bytes] = []
    pid = child(lambda: waiting.append(os.read(reading, 1)))
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            assert b"roboco_open_streams 0.0" in answer.read()
        server.shutdown()
        server.server_close()
        serve_metrics(metrics.registry, "127.0.0.1", port).shutdown()
    finally:
        os.write(writing, b".")
        os.waitpid(pid, 0)


def test_levels_are_read_at_most_every_few_seconds() -> None:
    asked: list[str] = []

    def tasks() -> int:
        asked.append("tasks")
        return len(asked)

    levels = BacklogGauges(tasks, lambda: 2, lambda: {"q": 3})
    for _ in range(3):
        told = {one.name: one.samples[0].value for one in levels()}
        assert told == {"roboco_open_tasks": 1, "roboco_dead_letters": 2, "roboco_queue_length": 3}
    assert asked == ["tasks"]
    always = BacklogGauges(tasks, lambda: 2, dict, max_age=0.0)
    assert [next(iter(always())).samples[0].value for _ in range(2)] == [2, 3]


def test_levels_that_cannot_be_read_are_left_out() -> None:
    def fail() -> int:
        raise TransientError("redis does not answer")

    assert list(BacklogGauges(fail, lambda: 1, dict)()) == []


def test_threads_may_tell_at_the_same_time(metrics: Metrics) -> None:
    def work() -> None:
        for _ in range(200):
            metrics.record(TOKENS, 1, "in", "small")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert value(metrics, "roboco_tokens_total", direction="in", model="small") == 800
