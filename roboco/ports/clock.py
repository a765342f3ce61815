"""The clock."""

import time


class Clock:
    """The time of this machine. NTP keeps machines in step, and a difference of seconds does no harm."""

    def now(self) -> float:
        """Return the time in Unix seconds."""
        return time.time()

    def sleep(self, seconds: float) -> None:
        """Wait for this number of seconds."""
        time.sleep(seconds)
