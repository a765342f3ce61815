"""Metrics: the figures of one worker, for Prometheus. Its children tell them to the process that started them.

A pool's children come and go, also by SIGKILL. So they keep nothing: each value is one short line in a pipe, which the
worker's first process reads. A line is written whole or not at all, and never waited for: if the pipe is full, since
the first process stands still, the value is lost and counted as that.
"""

import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from roboco.ports import Figure
from roboco.ports.telemetry import FIGURES

MOST_VALUES = 100
"""How many values a label has at most: names of models and tools come from team files."""
LONGEST_VALUE = 100
"""Characters of a label's value."""
OTHER = "other"
"""The value of a label that has too many."""

Line = list[Any]
"""The number of a figure, the value, the labels' values, and the process that tells it."""
Watch = Callable[[], Iterable[Metric]]
"""Reads figures at the time when they are asked for."""


class Metrics:
    """Made in the worker's first process, before its pool; `note` may be called there and in all its children."""

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
        """Add to a counter or gauge, or note a value of a histogram."""
        self._tell([self._numbers[figure.name], value, [str(label)[:LONGEST_VALUE] for label in labels], os.getpid()])

    def watch(self, read: Watch) -> None:
        """Have these figures read whenever somebody asks for all."""
        self.registry.register(_Watched(read))

    def close(self) -> None:
        """Take nothing more from children."""
        self._closed = True
        os.close(self._write_to)  # the listener closes the other end, when no child is left

    def _in_child(self) -> None:
        if self._closed:
            return
        if self._tell == self._values.take:  # not in a child of a child, which has no more to close
            os.close(self._read_from)
            self._untold = 0
        self._tell = self._pass_on

    def _pass_on(self, line: Line) -> None:
        """Write the line, less than a pipe takes at once, and before it how many could not be written."""
        told = [*line, self._untold] if self._untold else line
        try:
            os.write(self._write_to, json.dumps(told).encode() + b"\n")
            self._untold = 0
        except OSError:  # full, or nobody reads any more
            self._untold += 1

    def _listen(self, descriptor: int) -> None:
        rest = b""
        while data := os.read(descriptor, 65_536):
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                self._values.take(json.loads(line))
        os.close(descriptor)


class _Values:
    """What was told so far. Labels keep to their first MOST_VALUES values."""

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
        """Take a value in; of a gauge it is what it changes by."""
        number, value, values, pid, *untold = line
        figure = self._figures[number]
        if figure.kind == "gauge":
            with self._lock:
                levels = self._levels[figure.name]
                levels[pid] = levels.get(pid, 0.0) + value
        else:
            made = self._made[figure.name]
            one = made.labels(*map(self._capped, figure.labels, values)) if figure.labels else made
            if isinstance(one, Histogram):
                one.observe(max(0.0, value))  # clocks of two machines may differ
            else:
                one.inc(value)
        if untold:
            self._lost.inc(untold[0])

    def _capped(self, label: str, value: str) -> str:
        with self._lock:
            seen = self._seen.setdefault(label, set())
            if value not in seen:
                if len(seen) >= MOST_VALUES:
                    return OTHER
                seen.add(value)
            return value

    def _gauges(self) -> Iterator[Metric]:
        """The gauges: what a process that is gone has counted up, nobody counts down any more."""
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

    def collect(self) -> Iterable[Metric]:
        """The figures as they are now."""
        return self._read()

    def describe(self) -> Iterable[Metric]:
        """Nothing: the registry would read them only to learn their names."""
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
