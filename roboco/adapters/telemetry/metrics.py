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

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric as PrometheusMetric
from prometheus_client.registry import Collector

from roboco.ports import Figure
from roboco.ports.telemetry import FIGURES

MOST_VALUES = 100
"""Values of a label at most: team files contain the names of models and tools."""
LONGEST_VALUE = 100
"""Characters of a label value."""
OTHER = "other"
"""The label value that replaces those above the maximum."""

Line = list[Any]
"""The index of a metric, the value, the label values, the process id, and the number of dropped values, if any."""
Watch = Callable[[], Iterable[PrometheusMetric]]
"""Reads metrics when Prometheus scrapes."""


class Metrics:
    """The metrics of a worker. Create it in the worker's first process, before its pool; all children may use it."""

    def __init__(self, figures: tuple[Figure, ...] = FIGURES) -> None:
        self.registry = CollectorRegistry()
        self._numbers = {figure.name: number for number, figure in enumerate(figures)}
        self._figures = figures
        self._values = _Values(figures, self.registry)
        self._owner = os.getpid()
        self._tell: Callable[[Line], None] = self._values.take
        self._read_from, self._write_to = os.pipe()
        os.set_blocking(self._write_to, False)
        self._untold = 0
        self._closed = False
        os.register_at_fork(after_in_child=self._in_child)
        threading.Thread(target=self._listen, args=(self._read_from,), name="roboco-metrics", daemon=True).start()

    def note(self, figure: Figure, value: float, *labels: str) -> None:
        """Add to a counter or gauge, or record a value of a histogram."""
        self._tell([self._numbers[figure.name], value, [str(label)[:LONGEST_VALUE] for label in labels], os.getpid()])

    def watch(self, read: Watch) -> None:
        """Add metrics that `read` returns at each scrape."""
        self.registry.register(_Watched(read))

    def close(self) -> None:
        """Stop taking values from children."""
        self._closed = True
        os.close(self._write_to)  # the listener closes the other end when no child is left

    def _in_child(self) -> None:
        if self._closed:
            return
        if self._tell == self._values.take:  # a child of a child has nothing to close
            os.close(self._read_from)
            self._untold = 0
        self._tell = self._pass_on

    def _pass_on(self, line: Line) -> None:
        """Write the line, which is shorter than a pipe's atomic write, with the number of dropped values before it."""
        sent = [*line, self._untold] if self._untold else line
        try:
            os.write(self._write_to, json.dumps(sent).encode() + b"\n")
            self._untold = 0
        except OSError:  # the pipe is full, or its reader has ended
            self._untold += 1

    def _listen(self, descriptor: int) -> None:
        rest = b""
        while data := os.read(descriptor, 65_536):
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                self._values.take(json.loads(line))
        os.close(descriptor)


class _Values:
    """The values of all processes of a worker. A label keeps its first MOST_VALUES values."""

    def __init__(self, figures: tuple[Figure, ...], registry: CollectorRegistry) -> None:
        self._figures = figures
        self._lock = threading.Lock()
        self._seen: dict[str, set[str]] = {}
        self._levels: dict[str, dict[int, float]] = {figure.name: {} for figure in figures if figure.kind == "gauge"}
        self._lost = Counter(
            "roboco_metric_values_dropped_total",
            "Values that a child process could not pass on to the first process of its worker.",
            registry=registry,
        )
        self._made = {figure.name: made for figure in figures if (made := _made(figure, registry)) is not None}
        registry.register(_Watched(self._gauges))

    def take(self, line: Line) -> None:
        """Record the value of a line; for a gauge it is the change."""
        number, value, values, pid, *dropped = line
        figure = self._figures[number]
        if figure.kind == "gauge":
            with self._lock:
                levels = self._levels[figure.name]
                levels[pid] = levels.get(pid, 0.0) + value
        else:
            made = self._made[figure.name]
            one = made.labels(*map(self._capped, figure.labels, values)) if figure.labels else made
            if isinstance(one, Histogram):
                one.observe(max(0.0, value))  # the clocks of two machines may differ
            else:
                one.inc(value)
        if dropped:
            self._lost.inc(dropped[0])

    def _capped(self, label: str, value: str) -> str:
        with self._lock:
            seen = self._seen.setdefault(label, set())
            if value not in seen:
                if len(seen) >= MOST_VALUES:
                    return OTHER
                seen.add(value)
            return value

    def _gauges(self) -> Iterator[PrometheusMetric]:
        """Yield the gauges, without the values of processes that have ended: those would never decrease."""
        for figure in self._figures:
            if figure.kind == "gauge":
                with self._lock:
                    levels = self._levels[figure.name]
                    for pid in [pid for pid in levels if not _alive(pid)]:
                        del levels[pid]
                    level = sum(levels.values())
                yield GaugeMetricFamily(figure.name, figure.help, value=level)


class _Watched(Collector):
    def __init__(self, read: Watch) -> None:
        self._read = read

    def collect(self) -> Iterable[PrometheusMetric]:
        """Return the present values."""
        return self._read()

    def describe(self) -> Iterable[PrometheusMetric]:
        """Return no metrics: the registry would read them only for their names."""
        return ()


def _made(figure: Figure, registry: CollectorRegistry) -> Counter | Histogram | None:
    made: Counter | Histogram
    if figure.kind == "gauge":
        return None
    if figure.kind == "counter":
        made = Counter(figure.name, figure.help, figure.labels, registry=registry)
    else:
        made = Histogram(figure.name, figure.help, figure.labels, registry=registry, buckets=figure.bounds)
    for values in figure.known:
        made.labels(*values)
    return made


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
