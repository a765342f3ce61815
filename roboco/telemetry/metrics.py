"""The metrics of one worker, for Prometheus. Child processes pass their values to the first process of the worker.

A pool's children start and end, also by SIGKILL, so they store no metrics: each value is one short line in a pipe that
the first process reads. A child writes a line whole or not at all, and never waits: if the pipe is full, because the
first process is stopped, the value is dropped and counted as dropped.
"""

import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, Counter, Histogram, start_http_server
from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric as PrometheusMetric
from prometheus_client.registry import Collector

from roboco.errors import UsageError
from roboco.ports.telemetry import METRICS, MetricSpec

MAX_LABEL_VALUES = 100
"""Values of a label at most: team files contain the names of models and tools."""
MAX_LABEL_CHARS = 100
"""Characters of a label value."""
OTHER_VALUE = "other"
"""The label value that replaces those above the maximum."""

Line = list[Any]
"""The index of a metric, the value, the label values, the process id, and the number of dropped values, if any."""
MetricReader = Callable[[], Iterable[PrometheusMetric]]
"""Reads metrics when Prometheus scrapes."""


class Metrics:
    """The metrics of a worker. Create it in the worker's first process, before its pool; all children may use it."""

    def __init__(self, metrics: tuple[MetricSpec, ...] = METRICS) -> None:
        self.registry = CollectorRegistry()
        self._numbers = {figure.name: number for number, figure in enumerate(metrics)}
        self._metrics = metrics
        self._values = _Values(metrics, self.registry)
        self._owner = os.getpid()
        self._emit: Callable[[Line], None] = self._values.record
        self._read_from, self._write_to = os.pipe()
        os.set_blocking(self._write_to, False)
        self._dropped = 0
        self._closed = False
        os.register_at_fork(after_in_child=self._after_fork_in_child)
        threading.Thread(target=self._read_pipe, args=(self._read_from,), name="roboco-metrics", daemon=True).start()

    def record(self, metric: MetricSpec, value: float, *labels: str) -> None:
        """Add to a counter or gauge, or record a value of a histogram."""
        self._emit([self._numbers[metric.name], value, [str(label)[:MAX_LABEL_CHARS] for label in labels], os.getpid()])

    def add_reader(self, read: MetricReader) -> None:
        """Add metrics that `read` returns at each scrape."""
        self.registry.register(_ReadCollector(read))

    def close(self) -> None:
        """Stop taking values from children."""
        self._closed = True
        os.close(self._write_to)  # the listener closes the other end when no child is left

    def _after_fork_in_child(self) -> None:
        if self._closed:
            return
        if self._emit == self._values.record:  # a child of a child has nothing to close
            os.close(self._read_from)
            self._dropped = 0
        self._emit = self._write_to_pipe

    def _write_to_pipe(self, line: Line) -> None:
        """Write the line, which is shorter than a pipe's atomic write, with the number of dropped values before it."""
        sent = [*line, self._dropped] if self._dropped else line
        try:
            os.write(self._write_to, json.dumps(sent).encode() + b"\n")
            self._dropped = 0
        except OSError:  # the pipe is full, or its reader has ended
            self._dropped += 1

    def _read_pipe(self, descriptor: int) -> None:
        rest = b""
        while data := os.read(descriptor, 65_536):
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                self._values.record(json.loads(line))
        os.close(descriptor)


def serve_metrics(registry: CollectorRegistry, address: str, port: int) -> WSGIServer:
    """Serve http://ADDRESS:PORT/metrics from a thread until this process ends. Raise UsageError if that is impossible.

    A child that is forked later closes the port, because its parent may start again before the child has ended.
    """
    try:
        server, _ = start_http_server(port, address, registry)
    except (OSError, OverflowError) as error:
        raise UsageError(
            f"metrics cannot be served at {address}:{port}: {error}; set ROBOCO_METRICS_PORT to a free port for each "
            "worker of a machine, and ROBOCO_METRICS_ADDRESS to an address of it"
        ) from error
    os.register_at_fork(after_in_child=server.socket.close)
    return server


class _Values:
    """The values of all processes of a worker. A label keeps its first MAX_LABEL_VALUES values."""

    def __init__(self, metrics: tuple[MetricSpec, ...], registry: CollectorRegistry) -> None:
        self._metrics = metrics
        self._lock = threading.Lock()
        self._label_values: dict[str, set[str]] = {}
        self._gauges_by_pid: dict[str, dict[int, float]] = {
            figure.name: {} for figure in metrics if figure.kind == "gauge"
        }
        self._dropped = Counter(
            "roboco_metric_values_dropped_total",
            "Values that a child process could not pass on to the first process of its worker.",
            registry=registry,
        )
        self._collectors = {
            figure.name: made for figure in metrics if (made := _make_collector(figure, registry)) is not None
        }
        registry.register(_ReadCollector(self._read_gauges))

    def record(self, line: Line) -> None:
        """Record the value of a line; for a gauge it is the change."""
        number, value, values, pid, *dropped = line
        figure = self._metrics[number]
        if figure.kind == "gauge":
            with self._lock:
                levels = self._gauges_by_pid[figure.name]
                levels[pid] = levels.get(pid, 0.0) + value
        else:
            made = self._collectors[figure.name]
            one = made.labels(*map(self._cap_label, figure.labels, values)) if figure.labels else made
            if isinstance(one, Histogram):
                one.observe(max(0.0, value))  # the clocks of two machines may differ
            else:
                one.inc(value)
        if dropped:
            self._dropped.inc(dropped[0])

    def _cap_label(self, label: str, value: str) -> str:
        with self._lock:
            seen = self._label_values.setdefault(label, set())
            if value not in seen:
                if len(seen) >= MAX_LABEL_VALUES:
                    return OTHER_VALUE
                seen.add(value)
            return value

    def _read_gauges(self) -> Iterator[PrometheusMetric]:
        """Yield the gauges, without the values of processes that have ended: those would never decrease."""
        for figure in self._metrics:
            if figure.kind == "gauge":
                with self._lock:
                    levels = self._gauges_by_pid[figure.name]
                    for pid in [pid for pid in levels if not _is_alive(pid)]:
                        del levels[pid]
                    level = sum(levels.values())
                yield GaugeMetricFamily(figure.name, figure.help, value=level)


class _ReadCollector(Collector):
    def __init__(self, read: MetricReader) -> None:
        self._read = read

    def collect(self) -> Iterable[PrometheusMetric]:
        """Return the present values."""
        return self._read()

    def describe(self) -> Iterable[PrometheusMetric]:
        """Return no metrics: the registry would read them only for their names."""
        return ()


def _make_collector(metric: MetricSpec, registry: CollectorRegistry) -> Counter | Histogram | None:
    made: Counter | Histogram
    if metric.kind == "gauge":
        return None
    if metric.kind == "counter":
        made = Counter(metric.name, metric.help, metric.labels, registry=registry)
    else:
        made = Histogram(metric.name, metric.help, metric.labels, registry=registry, buckets=metric.bounds)
    for values in metric.initial_labels:
        made.labels(*values)
    return made


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
