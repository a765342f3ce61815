"""Quarantine: of the turns whose workers were lost again and again, a process makes one at a time.

A turn that ends its process takes the other turns of that process along, and each of them has used an attempt. If all
were tried again side by side, one poisonous turn would use up the attempts of a hundred healthy ones. So the last two
attempts are made alone: a healthy turn succeeds there, whatever it was beside before.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Quarantine:
    """One place in this process for turns that may have ended their workers."""

    def __init__(self) -> None:
        self._place = threading.Lock()

    @contextmanager
    def entered(self, attempt: int, attempts: int) -> Iterator[bool]:
        """Hold the place until the block ends, if this attempt needs it. Yield False if another turn has it."""
        if attempt < max(2, attempts - 1):
            yield True
            return
        free = self._place.acquire(blocking=False)
        try:
            yield free
        finally:
            if free:
                self._place.release()
