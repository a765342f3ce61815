"""The inboxes of tasks on Redis."""

from collections.abc import Sequence
from typing import Any

from roboco.adapters.redis.keys import Keys
from roboco.adapters.redis.scripts import Scripts, answering

PAGE = 500
"""Entries that are read or sent at a time."""
KEPT = 86_400
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
        urgent: bool = False,
        epoch: int | None = None,
        hold: bool = False,
    ) -> None:
        """Add the items. With `urgent` or `hold`, also request the end of the pending work, of this epoch if given."""
        names = [self._keys.state(task_id), self._keys.inbox(task_id)]
        request = "1" if urgent else "hold" if hold else "0"
        fixed = [request, self._keys.signals, task_id, "" if epoch is None else epoch, KEPT]
        for start in range(0, len(item_ids) or urgent, PAGE):
            self._scripts.run("inbox_add", names, *fixed, *item_ids[start : start + PAGE])

    def count(self, task_id: str) -> int:
        """Return the number of items."""
        with answering():
            waiting: Any = self._scripts.client.scard(self._keys.inbox(task_id))
            return int(waiting)

    def clear_cancellation(self, task_id: str, epoch: int) -> None:
        """Withdraw the request to end the pending work of this epoch."""
        self._scripts.run("clear_cancellation", [self._keys.state(task_id)], epoch)

    def forget(self, task_id: str, item_id: str) -> None:
        """Remove the item."""
        with answering():
            self._scripts.client.srem(self._keys.inbox(task_id), item_id)
