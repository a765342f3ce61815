"""Signals: requests to end work, while it is done."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol


class Signals(Protocol):
    """Requests to end work. A signal may get lost; the lease then reports the request, later."""

    def listen(self, task_id: str, epoch: int, heard: Callable[[], None]) -> AbstractContextManager[None]:
        """Call `heard`, from any thread, if the work of this epoch is requested to end before the block ends."""
