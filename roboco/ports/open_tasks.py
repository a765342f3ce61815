"""The open tasks of callers of the gateway."""

from collections.abc import Sequence
from typing import Protocol

from roboco.ports.caller_limits import Account, LimitReached


class OpenTasks(Protocol):
    """The tasks that callers have created and that have not ended, as far as known.

    A task stays until the gateway removes it, which it does when a limit is reached. Methods raise TransientError if
    the server does not answer.
    """

    def add(self, account: Account, task_id: str, size: int = 0) -> LimitReached | None:
        """Add the task with its bytes, unless a limit is reached.

        Idempotent: a task that is there already is never refused. One task alone may have more bytes than the limit.
        """

    def least_recently_checked(self, account: Account, limit: int) -> list[tuple[str, float]]:
        """Return tasks of the caller and of its tenant, each with the seconds since it was added or checked."""

    def remove(self, account: Account, task_ids: Sequence[str]) -> None:
        """Remove the tasks: they have ended, or were never accepted."""

    def mark_checked(self, account: Account, task_ids: Sequence[str]) -> None:
        """Record that the tasks are open now."""
