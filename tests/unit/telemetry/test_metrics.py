"""Metrics: the values of a worker's processes, and of children that have ended."""

import os
import select
import signal
import socket
import urllib.request
from collections.abc import Callable, Iterator

import pytest

from roboco.errors import TransientError, UsageError
from roboco.local.process import free_port
from roboco.ports.telemetry import (
    LEASE_EXPIRATIONS,
    OPEN_STREAMS,
    TOKENS,
    TOOL_SECONDS,
    TURN_SECONDS,
)
from roboco.telemetry.metrics import MAX_LABEL_VALUES, OTHER_VALUE, Metrics, serve_metrics
from roboco.workers.observability import backlog_gauges
from tests.support.stack import until

# a worker forks its children while its threads run, and so do these tests
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


@pytest.fixture
def metrics() -> Iterator[Metrics]:
    made = Metrics()
    yield made
    made.close()


def sample_value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


def fork_child(work: Callable[[], None]) -> int:
    """Run the work in a forked child. Return its process id."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        finally:
            os._exit(0)
    return pid


def test_each_kind_of_metric_is_recorded(metrics: Metrics) -> None:
    metrics.record(TOKENS, 10, "in", "small")
    metrics.record(TOKENS, 5, "in", "small")
    metrics.record(TURN_SECONDS, 0.2, "small")
    metrics.record(TURN_SECONDS, 700.0, "small")
    metrics.record(OPEN_STREAMS, 1)
    metrics.record(OPEN_STREAMS, 1)
    metrics.record(OPEN_STREAMS, -1)
    assert sample_value(metrics, "roboco_tokens_total", direction="in", model="small") == 15
    assert sample_value(metrics, "roboco_turn_seconds_count", model="small") == 2
    assert sample_value(metrics, "roboco_turn_seconds_bucket", model="small", le="0.25") == 1
    assert sample_value(metrics, "roboco_open_streams") == 1
    assert sample_value(metrics, "roboco_lease_expirations_total", kind="turn") == 0


def test_a_label_keeps_a_limited_number_of_values(metrics: Metrics) -> None:
    for number in range(MAX_LABEL_VALUES + 20):
        metrics.record(TOOL_SECONDS, 0.1, f"tool{number}", "ok")
    metrics.record(TOOL_SECONDS, 0.1, "tool0", "error")
    assert sample_value(metrics, "roboco_tool_seconds_count", tool=OTHER_VALUE, outcome="ok") == 20
    assert sample_value(metrics, "roboco_tool_seconds_count", tool="tool0", outcome="error") == 1
    assert sample_value(metrics, "roboco_tool_seconds_count", tool=f"tool{MAX_LABEL_VALUES}", outcome="ok") is None


def test_values_of_killed_children_are_kept(metrics: Metrics) -> None:
    def work() -> None:
        metrics.record(LEASE_EXPIRATIONS, 1, "tool")
        metrics.record(OPEN_STREAMS, 1)
        os.kill(os.getpid(), signal.SIGKILL)

    metrics.record(OPEN_STREAMS, 1)
    for pid in [fork_child(work) for _ in range(3)]:
        os.waitpid(pid, 0)
    until(
        lambda: sample_value(metrics, "roboco_lease_expirations_total", kind="tool") == 3,
        5,
        "three children have reported",
    )
    until(lambda: sample_value(metrics, "roboco_open_streams") == 1, 60, "only the running process counts")


def test_a_full_pipe_does_not_block_and_dropped_values_are_counted() -> None:
    """The first process cannot read its pipe here, since the test holds its lock."""
    metrics = Metrics()
    resume, filled = os.pipe(), os.pipe()
    writes = 10_000  # more than a pipe takes while its reader holds as much again
    with metrics._values._lock:

        def work() -> None:
            for _ in range(writes):
                metrics.record(TOKENS, 1, "in", "small")
            os.write(filled[1], b".")
            os.read(resume[0], 1)
            metrics.record(TOKENS, 1, "in", "small")

        pid = fork_child(work)
        os.read(filled[0], 1)
    until(lambda: not select.select([metrics._read_from], [], [], 0)[0], 60, "the pipe is empty")
    os.write(resume[1], b".")
    os.waitpid(pid, 0)

    def all_counted() -> bool:
        lost = sample_value(metrics, "roboco_metric_values_dropped_total") or 0.0
        arrived = sample_value(metrics, "roboco_tokens_total", direction="in", model="small") or 0.0
        return lost > 0 and lost + arrived == writes + 1

    until(all_counted, 60, "each value arrived or is counted as lost")
    metrics.close()
    for descriptor in (*resume, *filled):
        os.close(descriptor)


def test_metrics_are_served_and_a_child_does_not_keep_the_port(metrics: Metrics) -> None:
    port = free_port()
    taken = f"metrics cannot be served at 127.0.0.1:{port}: .*ROBOCO_METRICS_PORT"
    with socket.create_server(("127.0.0.1", port)), pytest.raises(UsageError, match=taken):
        serve_metrics(metrics.registry, "127.0.0.1", port)
    server = serve_metrics(metrics.registry, "127.0.0.1", port)
    reading, writing = os.pipe()
    waiting: list[bytes] = []
    pid = fork_child(lambda: waiting.append(os.read(reading, 1)))
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            assert b"roboco_open_streams 0.0" in answer.read()
        server.shutdown()
        server.server_close()
        serve_metrics(metrics.registry, "127.0.0.1", port).shutdown()
    finally:
        os.write(writing, b".")
        os.waitpid(pid, 0)


def test_backlog_gauges_have_the_numbers_of_the_servers_or_are_left_out() -> None:
    values = {one.name: one.samples[0].value for one in backlog_gauges(lambda: 1, lambda: 2, lambda: {"q": 3})}
    assert values == {"roboco_open_tasks": 1, "roboco_dead_letters": 2, "roboco_queue_length": 3}

    def fail() -> int:
        raise TransientError("redis does not answer")

    assert list(backlog_gauges(fail, lambda: 1, dict)) == []
