"""Signals on Redis: one channel for all workers, and one listening thread in each process that runs work."""

import contextvars
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import redis

from roboco.redis.client import connect_subscriber
from roboco.redis.keys import Keys

_log = logging.getLogger(__name__)

POLL_INTERVAL = 1.0
"""Seconds after which the thread checks a silent connection."""
RECONNECT_DELAY = 1.0
"""Seconds until the thread reconnects. Signals in between are lost; the leases report those requests later."""


class RedisSignals:
    """Listens for requests to end work. Its thread starts with the first work of the process and ends with `close`."""

    def __init__(self, url: str, keys: Keys) -> None:
        self._url = url
        self._channel = keys.signals
        self._lock = threading.Lock()
        self._listeners: dict[str, list[tuple[contextvars.Context, Callable[[], None]]]] = {}
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()

    def close(self) -> None:
        """Stop listening, and wait until the thread has ended."""
        self._closed.set()
        if self._thread is not None:
            self._thread.join()

    @contextmanager
    def listen(self, task_id: str, epoch: int, on_signal: Callable[[], None]) -> Iterator[None]:
        """Until the block ends, call `heard` if the end of the work of this epoch is requested.

        `heard` runs in the listening thread and must return quickly.
        """
        name = f"{task_id} {epoch}"
        listener = (contextvars.copy_context(), on_signal)  # log lines of the callback name its work
        with self._lock:
            self._listeners.setdefault(name, []).append(listener)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="roboco-signals", daemon=True)
                self._thread.start()
        try:
            yield
        finally:
            with self._lock:
                self._listeners[name].remove(listener)
                if not self._listeners[name]:
                    del self._listeners[name]

    def _run(self) -> None:
        while not self._closed.is_set():
            try:
                self._receive()
            except redis.RedisError as error:
                _log.warning("signals do not arrive; leases report the same requests, later: %s", error)
            except Exception:
                _log.exception("signals do not arrive; leases report the same requests, later")
            self._closed.wait(RECONNECT_DELAY)

    def _receive(self) -> None:
        with connect_subscriber(self._url) as client, client.pubsub(ignore_subscribe_messages=True) as pubsub:
            pubsub.subscribe(self._channel)
            while not self._closed.is_set():
                message = pubsub.get_message(timeout=POLL_INTERVAL)
                if message is not None:
                    self._notify(str(message["data"]))

    def _notify(self, name: str) -> None:
        with self._lock:
            listening = list(self._listeners.get(name, ()))
        for context, heard in listening:
            context.run(_call_listener, heard)


def _call_listener(heard: Callable[[], None]) -> None:
    try:
        heard()
    except Exception:
        _log.exception("the callback for a signal failed")
