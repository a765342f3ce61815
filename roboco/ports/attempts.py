"""Counts of attempts at work that may end its worker."""

from typing import Protocol


class Attempts(Protocol):
    """Counts of attempts at work that may end its worker. They are kept outside the messages that announce the work."""

    def begin(self, key: str) -> int | None:
        """Begin an attempt, with a lease. Return how many earlier attempts have not ended.

        None, and nothing is counted, while another attempt has the lease.
        """

    def renew(self, key: str) -> bool:
        """Renew the lease. Return False if it has expired."""

    def count(self, key: str) -> int:
        """Begin an attempt without a lease. Return how many earlier attempts have not ended."""

    def end(self, key: str) -> None:
        """End the lease and reset the count: the work has finished, with success or with an error."""
