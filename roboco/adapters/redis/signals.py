"""Signals on Redis: one channel for all workers, and one thread in each process that has heard of work."""

import contextvars
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import redis

from roboco.adapters.redis.client import connect_subscriber
from roboco.adapters.redis.keys import Keys

_log = logging.getLogger(__name__)

IDLE = 1.0
"""Seconds after which a silent connection is looked at."""
PAUSE = 1.0
"""Seconds until a lost connection is made anew. What is signalled meanwhile is lost, and told by the leases."""


class RedisSignals:
    """Hears when work is to end. Its thread begins with the first work of the process, and ends with it."""

    def __init__(self, url: str, keys: Keys) -> None:
        self._url = url
        self._channel = keys.signals
        self._lock = threading.Lock()
        self._listening: dict[str, list[tuple[contextvars.Context, Callable[[], None]]]] = {}
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()

    def close(self) -> None:
        """Hear nothing more, and wait for the thread."""
        self._closed.set()
        if self._thread is not None:
            self._thread.join()

    @contextmanager
    def listen(self, task_id: str, epoch: int, heard: Callable[[], None]) -> Iterator[None]:
        """Until the block ends, call `heard` when the work of this epoch is to end: from any thread, and soon over."""
        name = f"{task_id} {epoch}"
        listener = (contextvars.copy_context(), heard)  # the context tells log lines which work it is
        with self._lock:
            self._listening.setdefault(name, []).append(listener)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="roboco-signals", daemon=True)
                self._thread.start()
        try:
            yield
        finally:
            with self._lock:
                self._listening[name].remove(listener)
                if not self._listening[name]:
                    del self._listening[name]

    def _run(self) -> None:
        while not self._closed.is_set():
            try:
                self._hear()
            except redis.RedisError as error:
                _log.warning("signals are not heard, and leases tell what they say: %s", error)
            except Exception:
                _log.exception("signals are not heard, and leases tell what they say")
            self._closed.wait(PAUSE)

    def _hear(self) -> None:
        with connect_subscriber(self._url) as client, client.pubsub(ignore_subscribe_messages=True) as pubsub:
            pubsub.subscribe(self._channel)
            while not self._closed.is_set():
                message = pubsub.get_message(timeout=IDLE)
                if message is not None:
                    self._tell(str(message["data"]))

    def _tell(self, name: str) -> None:
        with self._lock:
            listening = list(self._listening.get(name, ()))
        for context, heard in listening:
            context.run(_tell, heard)


def _tell(heard: Callable[[], None]) -> None:
    try:
        heard()
    except Exception:
        _log.exception("work that is to end could not be told so")
