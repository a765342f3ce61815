"""PerProcess: a value that each process makes for itself, at its first use."""

import os
from collections.abc import Callable
from threading import RLock
from typing import Generic, TypeVar

Made = TypeVar("Made")


class PerProcess(Generic[Made]):
    """Returns the value of the calling process. Connections must not be shared across a fork.

    However many threads ask at once, a process makes one value. `functools.cache` would make one for each of them and
    keep the last: the others, with their open connections, are dropped in the middle of their use.
    """

    def __init__(self, make: Callable[[], Made]) -> None:
        self._make = make
        self._made: dict[int, Made] = {}
        self._locks: dict[int, RLock] = {}  # a child must not wait for a lock that a thread of its parent holds

    def __call__(self) -> Made:
        """Return the value, which the first caller makes."""
        pid = os.getpid()
        with self._locks.setdefault(pid, RLock()):
            if pid not in self._made:
                self._made[pid] = self._make()
            return self._made[pid]
