"""The tokens and the cost of callers' tasks on a day."""

from typing import NamedTuple, Protocol


class Spending(NamedTuple):
    """Tokens and cost of a day."""

    tokens: int = 0
    cost: float = 0.0


class DailyUsage(Protocol):
    """Usage by tenant, and by the caller that created the task. A day begins at midnight UTC.

    A best effort: a process that dies after a commit loses one step's usage, and an emptied server all of the day.
    Methods raise TransientError if the server does not answer.
    """

    def add(self, tenant: str, by: str, used: Spending) -> None:
        """Add the usage of a step to both. Not idempotent."""

    def today(self, tenant: str, by: str) -> tuple[Spending, Spending]:
        """Return the usage of the caller, and that of its tenant."""
