"""Counters of attempts at work that may crash its worker."""

from typing import Protocol


class Attempts(Protocol):
    """Counters of attempts at work that may crash its worker.

    They are stored outside the messages that announce the work.
    """

    def start(self, key: str) -> int | None:
        """Start an attempt with a lease. Return the number of earlier attempts that have not finished.

        Return None, and count nothing, while another attempt has the lease, which `AttemptLease` names.
        """

    def start_without_lease(self, key: str) -> int:
        """Start an attempt without a lease. Return the number of earlier attempts that have not finished."""

    def finish(self, *keys: str) -> None:
        """Finish the attempts, with success or an error: end their leases and reset their counts.

        All keys name the same task, or there is one key.
        """
