"""A heartbeat that renews when a test calls `beat`."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from roboco.engine.heartbeat import LeaseHeartbeat


class ManualHeartbeat(LeaseHeartbeat):
    """A heartbeat that renews all leases at each `beat`, in the test's thread."""

    def __init__(self) -> None:
        super().__init__(3600.0)
        self._holding: list[tuple[Callable[[], bool], Callable[[], None]]] = []

    @contextmanager
    def renewing(self, renew: Callable[[], bool], on_lost: Callable[[], None]) -> Iterator[None]:
        """Renew until the block ends. If a renewal is refused, call `on_lost` once."""
        pair = (renew, on_lost)
        self._holding.append(pair)
        try:
            yield
        finally:
            if pair in self._holding:
                self._holding.remove(pair)

    def beat(self) -> None:
        """Renew each lease once."""
        for pair in list(self._holding):
            renew, lost = pair
            if not renew() and pair in self._holding:
                self._holding.remove(pair)
                lost()
