"""A clock that a test moves."""

from roboco.ports.clock import Clock


class ManualClock(Clock):
    """A clock that advances by a millisecond at each reading, so that no two readings are equal."""

    def __init__(self, start: float = 1_800_000_000.0) -> None:
        self._ms = round(start * 1000)

    def now(self) -> float:
        self._ms += 1
        return self._ms / 1000

    def move(self, seconds: float) -> None:
        """Advance the clock by these seconds."""
        self._ms += round(max(0.0, seconds) * 1000)

    def sleep(self, seconds: float) -> None:
        self.move(seconds)


class SkewedClock(Clock):
    """A clock that is ahead of another clock by some seconds."""

    def __init__(self, clock: ManualClock, skew: float) -> None:
        self._clock = clock
        self._skew = skew

    def now(self) -> float:
        return self._clock.now() + self._skew

    def sleep(self, seconds: float) -> None:
        self._clock.sleep(seconds)
