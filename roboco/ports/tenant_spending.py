"""What the tasks of a tenant have used on a day, for its budget."""

from typing import NamedTuple, Protocol


class StateUsage(NamedTuple):
    """What a task has used on a day, after some steps."""

    steps: int
    """The number of steps of the task: of two values, that of more steps is the newer one."""
    tokens: int
    billionths: int
    """The cost, in billionths of the currency."""


class TenantSpending(Protocol):
    """Sums of the usage of tasks by tenant and day. Methods raise TransientError if the server does not answer.

    An emptied server has lost the sums. The next count of each task restores its part.
    """

    def count(self, task_id: str, day: str, used: StateUsage) -> None:
        """Replace what the task has used on this day (YYYY-MM-DD), unless a newer value is stored."""

    def spent(self, tenant: str, day: str) -> tuple[int, int]:
        """Return the tokens, and the billionths of the currency, of the tenant on this day. Cost: O(1)."""
