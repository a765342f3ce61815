"""Cancellation signals in memory, delivered without delay."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.support.memory_ports.server import MemoryServer


class MemorySignals:
    """Signals that request the end of work."""

    def __init__(self, server: MemoryServer) -> None:
        self._server = server

    @contextmanager
    def listen(self, task_id: str, epoch: int, on_signal: Callable[[], None]) -> Iterator[None]:
        """Until the block ends, call `on_signal` when cancellation of the work of this epoch is requested."""
        entry = (task_id, epoch, on_signal)
        self._server.listeners.append(entry)
        try:
            yield
        finally:
            self._server.listeners.remove(entry)
