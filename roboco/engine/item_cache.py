"""ItemCache: inbox items that this process has read. An accepted item never changes."""

import threading
from collections import OrderedDict

from roboco.domain.inbox.item import Item

MAX_BYTES = 8 * 1024 * 1024
"""Bytes of the cached items in memory. The least recently used ones are dropped."""
ITEM_BYTES = 2048
"""Bytes of an item in memory beside those of its JSON: measured 1,600 for a pause."""


class ItemCache:
    """Items by task, generation and id. Threads share it.

    Only a task that Redis has lost and rebuilt, in a new generation, may get another item under an id.
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._items: OrderedDict[tuple[str, str, str], tuple[Item, int]] = OrderedDict()
        self._bytes = 0

    def get(self, task_id: str, generation: str, item_id: str) -> Item | None:
        """Return the item, or None if it is not cached."""
        key = (task_id, generation, item_id)
        with self._lock:
            if (found := self._items.get(key)) is None:
                return None
            self._items.move_to_end(key)
            return found[0]

    def add(self, task_id: str, generation: str, item: Item, size: int) -> None:
        """Add an item of `size` bytes as JSON, and drop others if there are too many bytes."""
        key, size = (task_id, generation, item.item_id), size + ITEM_BYTES
        with self._lock:
            self._drop(key)
            self._items[key] = (item, size)
            self._bytes += size
            while self._bytes > self._max_bytes:
                self._drop(next(iter(self._items)))

    def _drop(self, key: tuple[str, str, str]) -> None:
        if (dropped := self._items.pop(key, None)) is not None:
            self._bytes -= dropped[1]
