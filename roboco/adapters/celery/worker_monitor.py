"""worker_monitor: the live workers, from the heartbeat events that they send every two seconds.

A query (`inspect`) would cost an answer of each worker every time, and its whole time-out if one is lost. So the
monitor queries only the queues of workers, until each new worker has answered.
"""

import logging
import threading
import time
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Final, Self

from celery import Celery

from roboco.adapters.celery.broker_error import translating_errors
from roboco.errors import TransientError

LOST_TIMEOUT: Final = 10.0
"""Seconds without a heartbeat after which a worker counts as lost."""
REMOVAL_TIMEOUT: Final = 120.0
"""Seconds after which a lost worker is removed."""
QUERY_TIMEOUT: Final = 1.0
"""Seconds for which answers of workers to a query are collected."""
CLOSE_TIMEOUT: Final = 1.0
"""Seconds to wait for the threads at the end. One that still waits for the broker ends with the process."""
POLL_INTERVAL: Final = 0.2
"""Seconds after which the listener notices that the monitor was closed."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class WorkerInfo:
    """A worker as its last event describes it."""

    name: str
    """Its node name, such as `celery@host`."""
    seen_at: float
    """When its last event arrived, in Unix seconds."""
    active: int = 0
    """Celery tasks that run in it."""
    processed: int = 0
    """Celery tasks that it has run since its start."""
    load: float = 0.0
    """The load average of its machine over one minute."""
    queues: tuple[str, ...] = ()
    """The queues that it consumes; empty until it has answered the query."""
    stopped: bool = False
    """True if it has sent that it shuts down."""

    def alive(self, now: float) -> bool:
        """Return True if its last event is younger than LOST_TIMEOUT, and it does not shut down."""
        return not self.stopped and now - self.seen_at < LOST_TIMEOUT


class WorkerMonitor:
    """Listens for events in a thread, from entering the context to leaving it."""

    def __init__(self, app: Celery) -> None:
        self._app = app
        self._lock = threading.Lock()
        self._workers: dict[str, WorkerInfo] = {}
        self._closed = threading.Event()
        self._threads = [threading.Thread(target=run, daemon=True) for run in (self._listen, self._query_queues)]
        self._has_new = threading.Event()

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed.set()
        self._has_new.set()
        until = time.monotonic() + CLOSE_TIMEOUT
        for thread in self._threads:
            thread.join(timeout=max(0.0, until - time.monotonic()))

    def workers(self) -> list[WorkerInfo]:
        """Return the workers whose events have arrived, sorted by name."""
        now = time.time()
        with self._lock:
            self._workers = {name: one for name, one in self._workers.items() if now - one.seen_at < REMOVAL_TIMEOUT}
            return sorted(self._workers.values(), key=lambda one: one.name)

    def _listen(self) -> None:
        while not self._closed.is_set():
            try:
                with translating_errors("a listener"), self._app.connection_for_read() as connection:
                    self._capture(connection)
            except TransientError as error:
                _log.debug("no heartbeats for now: %s", error)
                self._closed.wait(1.0)

    def _capture(self, connection: Any) -> None:
        receivers: Any = self._app.events
        receiver = receivers.Receiver(connection, handlers={"*": self._on_event}, routing_key="worker.#")

        def look() -> None:
            receiver.should_stop = self._closed.is_set()

        receiver.on_iteration = look
        for _ in receiver.consume(
            safety_interval=POLL_INTERVAL, wakeup=True
        ):  # with `wakeup` the workers send a heartbeat immediately
            pass

    def _on_event(self, event: dict[str, Any]) -> None:
        name = str(event.get("hostname", "?"))
        with self._lock:
            known = self._workers.get(name)
            self._workers[name] = WorkerInfo(
                name=name,
                seen_at=time.time(),
                active=int(event.get("active") or 0),
                processed=int(event.get("processed") or 0),
                load=float((event.get("loadavg") or [0.0])[0]),
                queues=known.queues if known else (),
                stopped=event.get("type") == "worker-offline",
            )
        if known is None:
            self._has_new.set()

    def _query_queues(self) -> None:
        while not self._closed.is_set():
            self._has_new.wait()
            self._has_new.clear()
            if self._closed.wait(POLL_INTERVAL):  # others may be new, too
                return
            try:
                with translating_errors("a query of its workers"):
                    answers: dict[str, Any] = self._app.control.inspect(timeout=QUERY_TIMEOUT).active_queues() or {}
            except TransientError as error:
                _log.debug("the queues of workers cannot be queried: %s", error)
                answers = {}
            if self._record_queues(answers):
                self._has_new.set()

    def _record_queues(self, answers: dict[str, Any]) -> bool:
        """Record the queues of the workers that have answered. Return True if other live workers have not answered."""
        now = time.time()
        with self._lock:
            for name, queues in answers.items():
                if name in self._workers:
                    names = tuple(sorted(queue["name"] for queue in queues))
                    self._workers[name] = replace(self._workers[name], queues=names)
            return any(one.alive(now) and not one.queues for one in self._workers.values())
