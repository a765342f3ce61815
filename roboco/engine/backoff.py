"""Backoff: growing delays of entries that fail repeatedly in this process."""

FIRST_DELAY, MAX_DELAY = 1.0, 30.0
"""The first and the longest delay, in seconds. The delay doubles with each failure."""
MAX_ENTRIES = 10_000
"""Entries whose failures are counted at most. Every failure of a further entry counts as its first."""


class Backoff:
    """Counts of consecutive failures by entry."""

    def __init__(self) -> None:
        self._failures: dict[str, int] = {}

    def record_failure(self, entry: str) -> float:
        """Count a failure. Return the seconds after which the entry may be tried again."""
        failures = self._failures.get(entry, 0) + 1
        if entry in self._failures or len(self._failures) < MAX_ENTRIES:
            self._failures[entry] = failures
        return min(MAX_DELAY, FIRST_DELAY * 2.0 ** min(failures - 1, 10))

    def reset(self, entry: str) -> bool:
        """Reset the failures of the entry. Return True if it had failed."""
        return self._failures.pop(entry, None) is not None

    def take_failed(self) -> list[str]:
        """Return the entries that have failed, the first failure first, and reset them."""
        failed, self._failures = self._failures, {}
        return list(failed)
