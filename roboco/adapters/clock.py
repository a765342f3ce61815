"""The system's clock."""

import time


class SystemClock:
    """The time of this machine; machines are kept together by NTP, and seconds of difference do no harm."""

    def now(self) -> float:
        """Unix seconds, UTC."""
        return time.time()

    def sleep(self, seconds: float) -> None:
        """Let so many seconds pass."""
        time.sleep(seconds)
