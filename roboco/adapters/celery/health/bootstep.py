"""bootstep: the step of a worker's consumer that probes its liveness, and notes it in a file for `roboco health`."""

import time
import uuid
from pathlib import Path
from typing import Any, Final

from celery import Celery
from celery.bootsteps import StartStopStep
from celery.signals import worker_shutting_down
from celery.worker import state
from kombu import Consumer, Exchange, Queue

from roboco.adapters.celery.health.liveness import Load, Pulse, Question
from roboco.adapters.celery.health.pulse_note import PulseNote

BEATS: Final = 12
"""Probes within the time limit of liveness."""
OWN_QUEUE: Final = ".health."
"""The infix of the name of a worker's private queue: the first queue that it consumes, this infix, and an id that is
new with every connection. A Redis user with permission for the first queue thus has permission for the private one."""


class PulseStep(StartStopStep):
    """Sends messages to its own worker, gives its pool jobs without effect, and notes the answers.

    Timers of the consumer's main loop do all of it. A lost connection ends the timers, and the file becomes stale.
    """

    requires = ("celery.worker.consumer.tasks:Tasks",)
    note: PulseNote
    limit: float

    def __init__(self, parent: Any, **kwargs: Any) -> None:
        super().__init__(parent, **kwargs)
        self._began = now = time.monotonic()
        self._expected = tuple(parent.app.amqp.queues.consume_from)
        self._pulse = Pulse(self.limit, now, now, now)
        self._timers: list[Any] = []
        self.note.begin()

    def start(self, parent: Any) -> None:
        """Start on a new connection. Earlier evidence still counts, or else repeated failures would renew it."""
        channel = parent.task_consumer.channel  # the channel of the shared queues: it proves that they deliver
        self._name = f"{self._expected[0]}{OWN_QUEUE}{uuid.uuid4().hex}"
        queue = Queue(self._name, Exchange(""), self._name, durable=False, exclusive=True, expires=10 * self.limit)
        self._own = Consumer(channel, [queue], on_message=self._take, no_ack=True)
        self._own.consume()
        self._message, self._work = Question(self.limit / 4), Question(self.limit / 4)
        self._pulse.answered = self._pulse.moved = time.monotonic()
        self._timers = [
            parent.timer.call_after(0, self._send, (parent,)),
            parent.timer.call_repeatedly(self.limit / BEATS, self._beat, (parent,)),
        ]

    def stop(self, parent: Any) -> None:
        """Stop the probes."""
        for timer in self._timers:
            timer.cancel()

    def _beat(self, parent: Any) -> None:
        now = time.monotonic()
        self._pulse.beat(now, self._load(parent))
        if self._message.due(now, self._pulse.taken):
            self._send(parent)
        if self._work.due(now, self._pulse.answered):
            parent.pool.apply_async(answer, callback=self._answered)
        if self._pulse.taken > self._began:  # a worker that has not received anything yet is not ready
            self.note.tell(now, self._pulse.problem(now))

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
            begun=state.all_total_count[0],
            active=len(state.active_requests),
            places=parent.pool.num_processes,
            saturated=0 < most <= fetched,
            missing=tuple(name for name in self._expected if not consumer.consuming_from(name)),
        )

    def _take(self, message: Any) -> None:
        self._message.open = 0
        self._pulse.taken = time.monotonic()

    def _answered(self, result: object) -> None:
        self._work.open = 0
        self._pulse.answered = time.monotonic()


def answer() -> None:
    """Do nothing: the job that proves that the pool works."""


def keep_pulse(app: Celery, pool: str, folder: Path, limit: float) -> None:
    """Have the workers of this application note their liveness in the folder, as `POOL.json`.

    Each worker needs its own folder. If it cannot be written, UsageError is raised as the worker starts.
    """
    note = PulseNote(folder / f"{pool}.json", limit)
    app.steps["consumer"].add(type("KeptPulse", (PulseStep,), {"note": note, "limit": limit}))

    def end(**_: Any) -> None:
        note.end()

    worker_shutting_down.connect(end, weak=False)
