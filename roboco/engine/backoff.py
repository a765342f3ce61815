"""Backoff: growing delays of what fails in this process again and again."""

FIRST, LONGEST = 5.0, 30.0
"""Seconds after the first failure, and at most."""
MOST = 10_000
"""How many entries are remembered; a failure of a further one counts as its first."""


class Backoff:
    """How often each entry has failed in a row."""

    def __init__(self) -> None:
        self._failures: dict[str, int] = {}

    def fail(self, entry: str) -> float:
        """Note a failure. Return the seconds after which the entry may be tried again."""
        failures = self._failures.get(entry, 0) + 1
        if entry in self._failures or len(self._failures) < MOST:
            self._failures[entry] = failures
        return min(LONGEST, FIRST * 2.0 ** min(failures - 1, 10))

    def succeed(self, entry: str) -> None:
        """Forget the failures."""
        self._failures.pop(entry, None)
