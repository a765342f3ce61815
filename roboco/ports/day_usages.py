"""The usage of a day, of the tasks of a tenant and of those of a caller."""

from typing import Protocol

from roboco.domain.usage import DayUsage


class DayUsages(Protocol):
    """Sums of the usage of tasks by day. Methods raise TransientError if the server does not answer.

    An emptied server has lost the sums. The next count of each task restores its part.
    """

    def count(self, task_id: str, by: str | None, steps: int, used: DayUsage) -> None:
        """Replace the usage of the task on this day, unless a value after as many steps, or after more, is stored.

        It counts for the tenant of the task, and for the caller `by` that created the task, if there is one.
        """

    def spent(self, tenant: str, day: str, by: str | None = None) -> DayUsage:
        """Return the usage of the tenant, or of its caller `by`, on this day (YYYY-MM-DD). Cost: O(1)."""
