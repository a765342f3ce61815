"""observability: the metrics, JSON logs and traces of a worker, each only if a setting enables it."""

import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from celery import Celery
from celery.signals import task_prerun, worker_init, worker_process_shutdown
from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric as PrometheusMetric

from roboco.broker.names import QUEUE_OF
from roboco.broker.queues import SENT_AT, queue_lengths
from roboco.client.wiring import secret_mask
from roboco.domain.dead_letter import DeadLetter
from roboco.errors import RobocoError, UsageError
from roboco.ports.telemetry import QUEUE_WAIT_SECONDS, REFUSED, Telemetry
from roboco.redis.client import connect_fail_fast
from roboco.redis.dead_letters import RedisDeadLetters
from roboco.redis.keys import Keys
from roboco.redis.schedule import RedisSchedule
from roboco.redis.scripts import Scripts
from roboco.settings import Settings
from roboco.telemetry.json_log import log_as_json
from roboco.telemetry.metrics import OTHER_VALUE, Metrics, serve_metrics
from roboco.telemetry.telemetry import ProcessTelemetry
from roboco.telemetry.tracing_setup import open_tracer, tracing_enabled

_log = logging.getLogger(__name__)


class WorkerTelemetry:
    """Starts with the worker. Producer and Flower applications export nothing."""

    def __init__(self, app: Celery, settings: Settings) -> None:
        self._app = app
        self._settings = settings
        self._metrics: Metrics | None = None
        self._telemetry: ProcessTelemetry | None = None
        self._in_logs = settings.log_format == "json"
        if self._in_logs:
            log_as_json(app, secret_mask(settings))
        if settings.metrics_port:
            worker_init.connect(self._serve, weak=False)
            task_prerun.connect(self._record_queue_wait, weak=False)
        worker_process_shutdown.connect(self._close, weak=False)

    def telemetry(self) -> Telemetry | None:
        """Return the telemetry of this process's engine, or None if no setting enables any."""
        if self._metrics is None and not self._in_logs and not tracing_enabled(os.environ):
            return None
        record = None if self._metrics is None else self._metrics.record
        self._telemetry = ProcessTelemetry(record, open_tracer(os.environ))
        return self._telemetry

    def count_refusal(self, letter: DeadLetter) -> None:
        """Count a message that the consumer of this worker has refused, of which this is the dead letter."""
        if self._metrics is not None:
            self._metrics.record(REFUSED, 1, letter.name if letter.name in QUEUE_OF else OTHER_VALUE)

    def export_backlog(self) -> None:
        """Export the backlog as well. Workers that sweep call this."""
        if self._metrics is not None:
            client, keys = connect_fail_fast(self._settings.redis_url), Keys(self._settings.prefix)
            schedule, dead = RedisSchedule(Scripts(client), keys), RedisDeadLetters(lambda: client, keys)
            lengths = partial(queue_lengths, self._app)
            self._metrics.add_reader(partial(backlog_gauges, schedule.count, dead.count, lengths))

    def _serve(self, **_: Any) -> None:
        """Serve the metrics from the worker's main process, before its pool starts; exit if the port is in use."""
        self._metrics = Metrics()
        try:
            serve_metrics(self._metrics.registry, self._settings.metrics_address, self._settings.metrics_port)
        except UsageError as error:
            raise SystemExit(f"roboco: {error}") from error

    def _record_queue_wait(self, task: Any, **_: Any) -> None:
        sent = task.request.get(SENT_AT)
        queue = (task.request.delivery_info or {}).get("routing_key")
        if self._metrics is not None and isinstance(sent, int | float) and queue:
            self._metrics.record(QUEUE_WAIT_SECONDS, time.time() - sent, queue)

    def _close(self, **_: Any) -> None:
        if self._telemetry is not None:
            self._telemetry.close()


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
