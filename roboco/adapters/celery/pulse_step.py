"""The part of a worker's consumer that feels its pulse and notes it in a file, which `roboco health` reads."""

import json
import os
import time
import uuid
from math import inf
from pathlib import Path
from typing import Any, Final

from celery import Celery
from celery.bootsteps import StartStopStep
from celery.signals import worker_shutting_down
from celery.worker import state
from kombu import Consumer, Exchange, Producer, Queue

from roboco.adapters.celery.pulse import Load, Pulse, Question
from roboco.errors import UsageError

BEATS: Final = 12
"""How often within the limit the pulse is felt."""
OWN_QUEUE: Final = "roboco.health."
"""What the name of a worker's own queue begins with. It has a new one with every connection."""


class PulseStep(StartStopStep):
    """Sends the worker messages of its own, hands its pool work of no effect, and notes what became of them.

    Everything happens in timers of the consumer's own main loop, which a lost connection ends: then the file grows
    old. `note` is that file; a worker without one does nothing of this.
    """

    requires = ("celery.worker.consumer.tasks:Tasks",)
    note: Path
    limit: float

    def __init__(self, parent: Any, **kwargs: Any) -> None:
        super().__init__(parent, **kwargs)
        now = time.monotonic()
        self._expected = tuple(parent.app.amqp.queues.consume_from)
        self._pulse = Pulse(self.limit, now, now, now)
        self._timer: Any = None
        _clear(self.note)

    def start(self, parent: Any) -> None:
        """Begin anew on this connection; what was taken before counts on, or one that breaks at once would do."""
        channel = parent.task_consumer.channel  # the one that consumes the shared queues: what it brings, they bring
        name = f"{OWN_QUEUE}{uuid.uuid4().hex}"
        queue = Queue(name, Exchange(""), name, durable=False, exclusive=True, expires=10 * self.limit)
        self._own = Consumer(channel, [queue], on_message=self._take, no_ack=True)
        self._own.consume()
        self._producer = Producer(channel, routing_key=name, serializer="json")
        self._message, self._work = Question(self.limit / 4), Question(self.limit / 4)
        self._pulse.answered = self._pulse.moved = now = time.monotonic()
        if self._message.due(now, -inf):
            self._send()
        self._timer = parent.timer.call_repeatedly(self.limit / BEATS, self._beat, (parent,))

    def stop(self, parent: Any) -> None:
        """Feel no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _beat(self, parent: Any) -> None:
        now = time.monotonic()
        self._pulse.beat(now, self._load(parent))
        if self._message.due(now, self._pulse.taken):
            self._send()
        if self._work.due(now, self._pulse.answered):
            parent.pool.apply_async(answer, callback=self._answered)
        write(self.note, now, self.limit, self._pulse.problem(now))

    def _send(self) -> None:
        self._producer.publish({}, headers={"task": OWN_QUEUE})

    def _load(self, parent: Any) -> Load:
        most = parent.qos.value
        fetched = sum(not request.acknowledged for request in list(state.reserved_requests))
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
    """What the pool is given to do: nothing."""


def write(note: Path, now: float, limit: float, problem: str | None, ending: bool = False) -> None:
    """Note what is wrong, if anything; a reader sees the whole of it or that of the time before."""
    record = {"time": now, "limit": limit, "problem": problem, "ending": ending}
    beside = note.with_suffix(".new")
    beside.write_text(json.dumps(record))
    os.replace(beside, note)


def keep_pulse(app: Celery, pool: str, folder: Path, limit: float) -> None:
    """Have the workers of this application note their pulse in the folder, as `POOL.json`.

    Each worker needs a folder of its own. One that cannot be written is a UsageError as the worker starts.
    """
    note = folder / f"{pool}.json"
    app.steps["consumer"].add(type("KeptPulse", (PulseStep,), {"note": note, "limit": limit}))

    def end(**_: Any) -> None:
        write(note, time.monotonic(), limit, None, ending=True)

    worker_shutting_down.connect(end, weak=False)


def _clear(note: Path) -> None:
    """Remove the note of a worker before, in the same container."""
    try:
        note.parent.mkdir(parents=True, exist_ok=True)
        note.unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(
            f"ROBOCO_HEALTH={str(note.parent)!r} cannot be written: {error}; name a folder in memory"
        ) from error
