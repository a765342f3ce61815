"""Quarantine: of the turns that have repeatedly lost their workers, a process runs one at a time.

A turn that crashes its process ends the other turns of that process too, and each of them has used an attempt. If all
ran again side by side, one poison turn would use up the attempts of a hundred healthy ones. So the last two attempts
run alone: a healthy turn succeeds there.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Quarantine:
    """A lock of this process for turns that may have crashed their workers."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    @contextmanager
    def admit(self, attempt: int, max_attempts: int) -> Iterator[bool]:
        """Hold the lock until the block ends, if this attempt needs it. Yield False if another turn holds it."""
        if attempt < max(2, max_attempts - 1):
            yield True
            return
        acquired = self._lock.acquire(blocking=False)
        try:
            yield acquired
        finally:
            if acquired:
                self._lock.release()
