"""Signals: requests to cancel running work."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol


class Signals(Protocol):
    """Requests to cancel running work. A signal may be lost; the lease then reports the request, later."""

    def listen(self, task_id: str, epoch: int, on_signal: Callable[[], None]) -> AbstractContextManager[None]:
        """Call `on_signal`, from any thread, if the work of this epoch is cancelled before the block ends."""
