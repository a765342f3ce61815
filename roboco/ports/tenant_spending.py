"""What the tasks of a tenant have used on a day, for its budget."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class StepSpending(NamedTuple):
    """The usage of a step."""

    seq: int
    """The position of the step in its task."""
    tokens: int
    billionths: int
    """The cost, in billionths of the currency."""


class TenantSpending(Protocol):
    """Sums of steps by tenant and day. Methods raise TransientError if the server does not answer.

    An emptied server has lost the sums. The steps of open tasks are counted again when these are rebuilt.
    """

    def count(self, task_id: str, day: str, steps: Sequence[StepSpending]) -> None:
        """Add the steps of a task on this day (YYYY-MM-DD), in their order. A repetition adds nothing.

        A step before the newest one of its task that was counted on this day is counted already.
        """

    def spent(self, tenant: str, day: str) -> tuple[int, int]:
        """Return the tokens, and the billionths of the currency, of the tenant on this day. Cost: O(1)."""
