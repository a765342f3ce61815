"""Feed: a stream read by a thread of its own, so that who waits for it can look about and be interrupted."""

import queue
import threading
from collections.abc import Iterator

from roboco.domain.stream.item import StreamItem

_AHEAD = 1000
"""How many items are read ahead of what is shown."""


class Feed:
    """Hands out a stream's items; the thread dies with the process."""

    def __init__(self, items: Iterator[StreamItem]) -> None:
        self._queue: queue.Queue[StreamItem | Exception] = queue.Queue(_AHEAD)
        threading.Thread(target=self._read, args=(items,), name="roboco-feed", daemon=True).start()

    def next(self, seconds: float) -> StreamItem | None:
        """The next item; None if none came for so long. Raises what the stream raised."""
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
