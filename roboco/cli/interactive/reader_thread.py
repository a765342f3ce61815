"""ReaderThread: reads a stream in the background, so that the main thread can do other work and be interrupted."""

import queue
import threading
from collections.abc import Iterator
from typing import Final

from roboco.domain.stream.item import StreamItem

MAX_READ_AHEAD: Final = 1000
"""Items that the thread reads before the first of them is shown."""


class ReaderThread:
    """The items of a stream; the thread ends with the process."""

    def __init__(self, items: Iterator[StreamItem]) -> None:
        self._queue: queue.Queue[StreamItem | Exception] = queue.Queue(MAX_READ_AHEAD)
        threading.Thread(target=self._read, args=(items,), name="roboco-reader", daemon=True).start()

    def next(self, seconds: float) -> StreamItem | None:
        """Return the next item, or None if none arrives within this time. Raises the stream's own error."""
        try:
            item = self._queue.get(timeout=seconds)
        except queue.Empty:
            return None
        if isinstance(item, Exception):
            raise item
        return item

    def _read(self, items: Iterator[StreamItem]) -> None:
        try:
            for item in items:
                self._queue.put(item)
        except Exception as error:
            self._queue.put(error)
