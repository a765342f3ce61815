"""A value that each process creates at its first use."""

import os
from collections.abc import Callable
from threading import RLock
from typing import Generic, TypeVar

Made = TypeVar("Made")


class PerProcess(Generic[Made]):
    """Returns the value of the calling process, because connections must not be shared across a fork.

    A process creates one value, even if many threads call concurrently. `functools.cache` would create one for each
    thread and keep the last: the others would lose their open connections while in use.
    """

    def __init__(self, make: Callable[[], Made]) -> None:
        self._make = make
        self._values: dict[int, Made] = {}
        self._locks: dict[int, RLock] = {}  # a child must not wait for a lock that a thread of its parent holds

    def __call__(self) -> Made:
        """Return the value, which the first call creates."""
        pid = os.getpid()
        with self._locks.setdefault(pid, RLock()):
            if pid not in self._values:
                self._values[pid] = self._make()
            return self._values[pid]
