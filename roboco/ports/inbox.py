"""The inboxes of tasks: the ids of items that are not applied yet."""

from collections.abc import Sequence
from typing import Protocol


class Inbox(Protocol):
    """The ids of the items that wait for a task. The items themselves are in the workspace."""

    def add(
        self,
        task_id: str,
        item_ids: Sequence[str],
        interrupt: bool = False,
        epoch: int | None = None,
        block_claim: bool = False,
    ) -> None:
        """Add the items.

        With `interrupt`, also request that the workers cancel the task's pending turn or calls now. With an epoch, the
        request is for the work of that epoch only. With `block_claim`, no worker can claim the pending turn from now
        on. A worker that has claimed it continues.
        """

    def count(self, task_id: str) -> int:
        """Return the number of items."""

    def clear_cancellation(self, task_id: str, epoch: int) -> None:
        """Withdraw the request to cancel the pending work of this epoch."""

    def remove(self, task_id: str, item_id: str) -> None:
        """Remove the item."""
