"""Gauges of the backlog, read from the servers when Prometheus scrapes."""

import logging
from collections.abc import Callable, Iterator, Mapping

from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric as PrometheusMetric

from roboco.errors import RobocoError

_log = logging.getLogger(__name__)


def backlog_gauges(
    open_tasks: Callable[[], int], dead_letters: Callable[[], int], queue_lengths: Callable[[], Mapping[str, int]]
) -> Iterator[PrometheusMetric]:
    """Yield open tasks, dead letters, and the lengths of queues. If a server does not answer, yield none of them."""
    try:
        tasks, dead, lengths = open_tasks(), dead_letters(), queue_lengths()
    except RobocoError as error:
        _log.warning("gauges of open tasks, dead letters and queue lengths are left out: %s", error)
        return
    help_text = "Tasks that have not ended, waiting ones included."
    yield GaugeMetricFamily("roboco_open_tasks", help_text, value=tasks)
    help_text = "Messages and work that Roboco no longer tries."
    yield GaugeMetricFamily("roboco_dead_letters", help_text, value=dead)
    queues = GaugeMetricFamily("roboco_queue_length", "Messages that no worker has taken.", labels=("queue",))
    for queue, length in lengths.items():
        queues.add_metric((queue,), length)
    yield queues
