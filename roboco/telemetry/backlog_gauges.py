"""Gauges of the backlog, read from the servers when Prometheus scrapes, and at most every few seconds."""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping

from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric as PrometheusMetric

from roboco.errors import RobocoError

MAX_AGE = 5.0
"""Seconds for which the gauges keep their values."""

_log = logging.getLogger(__name__)


class BacklogGauges:
    """Open tasks, dead letters, and the lengths of queues. If a server does not answer, they are left out."""

    def __init__(
        self,
        open_tasks: Callable[[], int],
        dead_letters: Callable[[], int],
        queue_lengths: Callable[[], Mapping[str, int]],
        max_age: float = MAX_AGE,
    ) -> None:
        self._open_tasks = open_tasks
        self._dead_letters = dead_letters
        self._queue_lengths = queue_lengths
        self._max_age = max_age
        self._lock = threading.Lock()
        self._read_at = float("-inf")
        self._last: list[PrometheusMetric] = []

    def __call__(self) -> Iterable[PrometheusMetric]:
        """Return the gauges."""
        with self._lock:
            if time.monotonic() - self._read_at >= self._max_age:
                self._last = self._read()
                self._read_at = time.monotonic()
            return list(self._last)

    def _read(self) -> list[PrometheusMetric]:
        try:
            tasks = GaugeMetricFamily(
                "roboco_open_tasks", "Tasks that have not ended, waiting ones included.", value=self._open_tasks()
            )
            dead = GaugeMetricFamily(
                "roboco_dead_letters", "Messages and work that Roboco no longer tries.", value=self._dead_letters()
            )
            queues = GaugeMetricFamily("roboco_queue_length", "Messages that no worker has taken.", labels=("queue",))
            for queue, length in self._queue_lengths().items():
                queues.add_metric((queue,), length)
        except RobocoError as error:
            _log.warning("gauges of open tasks, dead letters and queue lengths are left out: %s", error)
            return []
        return [tasks, dead, queues]
