"""The inboxes of tasks on Redis."""

from collections.abc import Sequence
from typing import Any

from roboco.redis.keys import Keys
from roboco.redis.scripts import Scripts, translating_errors

PAGE_SIZE = 500
"""Entries that are read or sent at a time."""
UNKNOWN_TASK_TTL = 86_400
"""Seconds after which the inbox of a task that Redis does not have expires."""


class RedisInbox:
    """The ids of waiting items: one set for each task."""

    def __init__(self, scripts: Scripts, keys: Keys) -> None:
        self._scripts = scripts
        self._keys = keys

    def add(
        self,
        task_id: str,
        item_ids: Sequence[str],
        interrupt: bool = False,
        epoch: int | None = None,
        block_claim: bool = False,
    ) -> None:
        """Add the items. With `interrupt` or `block_claim`, also request the end of the pending work.

        With `epoch`, request the end of the work of this epoch alone.
        """
        names = [self._keys.state(task_id), self._keys.inbox(task_id)]
        request = "1" if interrupt else "hold" if block_claim else "0"
        fixed = [request, self._keys.signals, task_id, "" if epoch is None else epoch, UNKNOWN_TASK_TTL]
        for start in range(0, len(item_ids) or interrupt or block_claim, PAGE_SIZE):
            self._scripts.run("inbox_add", names, *fixed, *item_ids[start : start + PAGE_SIZE])

    def count(self, task_id: str) -> int:
        """Return the number of items."""
        with translating_errors():
            waiting: Any = self._scripts.client.scard(self._keys.inbox(task_id))
            return int(waiting)

    def clear_cancellation(self, task_id: str, epoch: int) -> None:
        """Withdraw the request to end the pending work of this epoch."""
        self._scripts.run("clear_cancellation", [self._keys.state(task_id)], epoch)

    def remove(self, task_id: str, item_id: str) -> None:
        """Remove the item."""
        with translating_errors():
            self._scripts.client.srem(self._keys.inbox(task_id), item_id)
