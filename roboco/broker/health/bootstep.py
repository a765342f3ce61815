"""bootstep: the step of a worker's consumer that probes its liveness, and notes it in a file for `roboco health`."""

import json
import os
import time
import uuid
from pathlib import Path
from typing import Any, Final

from celery import Celery
from celery.bootsteps import StartStopStep
from celery.signals import worker_shutting_down
from celery.worker import state
from kombu import Consumer, Exchange, Queue

from roboco.broker.health.liveness import Liveness, Load, Probe
from roboco.errors import UsageError


class HealthFile:
    """Writes the file `path` atomically: a reader sees a whole note.

    A signal handler may call `end` in the middle of any method here, and of another `end`.
    """

    def __init__(self, path: Path, limit: float) -> None:
        self._path = path
        self._limit = limit
        self._ending = False

    def reset(self) -> None:
        """Remove the note of an earlier worker in the same container. UsageError if no note can be written here."""
        folder = self._path.parent
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._path.unlink(missing_ok=True)
        except OSError as error:
            raise UsageError(
                f"ROBOCO_HEALTH_DIR={str(folder)!r} cannot be written: {error}; name a folder in memory"
            ) from error

    def write(self, now: float, problem: str | None) -> None:
        """Write the problem, or None, at this time of the monotonic clock."""
        ending = self._ending
        self._write(now, problem, ending)
        if self._ending and not ending:  # `end` was called meanwhile, and must not be overwritten
            self._write(now, problem, True)

    def write_ending(self) -> None:
        """Write that the worker shuts down, so that its probes may stop."""
        if not self._ending:
            self._ending = True
            self._write(time.monotonic(), None, True)

    def _write(self, now: float, problem: str | None, ending: bool) -> None:
        record = {"time": now, "limit": self._limit, "problem": problem, "ending": ending}
        new_file = self._path.with_suffix(".ending" if ending else ".new")
        new_file.write_text(json.dumps(record))
        os.replace(new_file, self._path)


PROBES_PER_LIMIT: Final = 12
"""Probes within the time limit of liveness."""
QUEUE_INFIX: Final = ".health."
"""The infix of the name of a worker's private queue: the first queue that it consumes, this infix, and an id that is
new with every connection. A Redis user with permission for the first queue thus has permission for the private one."""


class HealthStep(StartStopStep):
    """Sends messages to its own worker, gives its pool jobs without effect, and notes the answers.

    Timers of the consumer's main loop do all of it. A lost connection ends the timers, and the file becomes stale.
    """

    requires = ("celery.worker.consumer.tasks:Tasks",)
    file: HealthFile
    limit: float

    def __init__(self, parent: Any, **kwargs: Any) -> None:
        super().__init__(parent, **kwargs)
        self._started_at = now = time.monotonic()
        self._expected = tuple(parent.app.amqp.queues.consume_from)
        self._liveness = Liveness(self.limit, now, now, now)
        self._timers: list[Any] = []
        self.file.reset()

    def start(self, parent: Any) -> None:
        """Start on a new connection. Earlier evidence still counts, or else repeated failures would renew it."""
        channel = parent.task_consumer.channel  # the channel of the shared queues: it proves that they deliver
        self._name = f"{self._expected[0]}{QUEUE_INFIX}{uuid.uuid4().hex}"
        queue = Queue(self._name, Exchange(""), self._name, durable=False, exclusive=True, expires=10 * self.limit)
        self._consumer = Consumer(channel, [queue], on_message=self._on_message, no_ack=True)
        self._consumer.consume()
        self._message_probe, self._pool_probe = Probe(self.limit / 4), Probe(self.limit / 4)
        self._liveness.pool_answered_at = self._liveness.slot_free_at = time.monotonic()
        self._timers = [
            parent.timer.call_after(0, self._send, (parent,)),
            parent.timer.call_repeatedly(self.limit / PROBES_PER_LIMIT, self._tick, (parent,)),
        ]

    def stop(self, parent: Any) -> None:
        """Stop the probes."""
        for timer in self._timers:
            timer.cancel()

    def _tick(self, parent: Any) -> None:
        now = time.monotonic()
        self._liveness.update(now, self._load(parent))
        if self._message_probe.due(now, self._liveness.received_at):
            self._send(parent)
        if self._pool_probe.due(now, self._liveness.pool_answered_at):
            parent.pool.apply_async(do_nothing, callback=self._on_answer)
        if self._liveness.received_at > self._started_at:  # a worker that has not received anything yet is not ready
            self.file.write(now, self._liveness.problem(now))

    def _send(self, parent: Any) -> None:
        with parent.app.producer_pool.acquire(block=True) as producer:
            producer.publish(
                {},
                routing_key=self._name,
                exchange="",
                headers={"task": "roboco.health"},
                serializer="json",
                retry=True,
                retry_policy={"max_retries": 1, "interval_start": 0},
            )

    def _load(self, parent: Any) -> Load:
        most = parent.qos.value
        reserved: Any = state.reserved_requests
        known = [reference() for reference in tuple(reserved.data)]  # a copy, because threads of the pool change it
        fetched = sum(request is not None and not request.acknowledged for request in known)
        consumer = parent.task_consumer
        return Load(
            started=state.all_total_count[0],
            active=len(state.active_requests),
            slots=parent.pool.num_processes,
            saturated=0 < most <= fetched,
            missing=tuple(name for name in self._expected if not consumer.consuming_from(name)),
        )

    def _on_message(self, message: Any) -> None:
        self._message_probe.unanswered = 0
        self._liveness.received_at = time.monotonic()

    def _on_answer(self, result: object) -> None:
        self._pool_probe.unanswered = 0
        self._liveness.pool_answered_at = time.monotonic()


def do_nothing() -> None:
    """Do nothing: the job that proves that the pool works."""


def add_health_step(app: Celery, pool: str, folder: Path, limit: float) -> None:
    """Have the workers of this application note their liveness in the folder, as `POOL.json`.

    Each worker needs its own folder. If it cannot be written, UsageError is raised as the worker starts.
    """
    file = HealthFile(folder / f"{pool}.json", limit)
    app.steps["consumer"].add(type("BoundHealthStep", (HealthStep,), {"file": file, "limit": limit}))

    def end(**_: Any) -> None:
        file.write_ending()

    worker_shutting_down.connect(end, weak=False)
