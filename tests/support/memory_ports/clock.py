"""A clock that a test moves."""


class ManualClock:
    """Starts at some time; each reading is a millisecond later than the one before, as no two are the same."""

    def __init__(self, start: float = 1_800_000_000.0) -> None:
        self._ms = round(start * 1000)

    def now(self) -> float:
        """Unix seconds, UTC."""
        self._ms += 1
        return self._ms / 1000

    def move(self, seconds: float) -> None:
        """Let so many seconds pass."""
        self._ms += round(max(0.0, seconds) * 1000)

    def sleep(self, seconds: float) -> None:
        """Let so many seconds pass."""
        self.move(seconds)


class SkewedClock:
    """A clock that is some seconds off."""

    def __init__(self, clock: ManualClock, skew: float) -> None:
        self._clock = clock
        self._skew = skew

    def now(self) -> float:
        """Unix seconds, as this machine has them."""
        return self._clock.now() + self._skew

    def sleep(self, seconds: float) -> None:
        """Let so many seconds pass."""
        self._clock.sleep(seconds)
