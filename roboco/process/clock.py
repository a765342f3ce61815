"""The system's clock."""

import time


class SystemClock:
    """The time of this machine. NTP keeps machines in step, and a difference of seconds does no harm."""

    def now(self) -> float:
        """Return the Unix time in seconds."""
        return time.time()

    def sleep(self, seconds: float) -> None:
        """Sleep for these seconds."""
        time.sleep(seconds)
