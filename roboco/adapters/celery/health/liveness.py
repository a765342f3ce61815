"""Pulse: what proves that a worker works, gathered in its own main loop, and what is wrong where it does not.

A process that exists proves nothing, and its main loop that turns proves little: the broker may have forgotten it,
its pool may be stuck. So the worker sends messages to itself over the channel that consumes its queues, and hands its
pool something to do whenever a place is free. What is fully busy can take neither, and is believed for `BUSY` seconds.
"""

from dataclasses import dataclass
from math import inf
from typing import Final

BUSY: Final = 3600.0
"""Seconds after which a pool that is full, and where nothing has begun since then, no longer counts as busy."""
OPEN: Final = 4
"""How many questions may be open at once: more would only heap up in a pool that is stuck."""


@dataclass(frozen=True)
class Load:
    """What a worker has in hand: Celery tasks that have begun so far and that run now, and how many it can run.

    saturated: it has fetched as many messages as it may, so that it takes no further one.
    missing: queues that it should consume, and does not.
    """

    begun: int
    active: int
    places: int
    saturated: bool = False
    missing: tuple[str, ...] = ()

    @property
    def full(self) -> bool:
        """Whether no place of the pool is free."""
        return self.active >= self.places


@dataclass
class Question:
    """What is asked again and again; one that gets lost is asked once more, and none is asked without end."""

    pause: float
    open: int = 0
    last: float = -inf

    def due(self, now: float, answered: float) -> bool:
        """Whether it is to be asked now, as it then counts as asked."""
        due = now - max(answered, self.last) >= self.pause and self.open < OPEN
        if due:
            self.open += 1
            self.last = now
        return due


@dataclass
class Pulse:
    """The last times at which the worker was seen to work; all times of one monotonic clock, in seconds.

    taken: its own message came from the broker; answered: its pool did something; moved: a place was or became free.
    """

    limit: float
    taken: float
    answered: float
    moved: float
    _load: Load = Load(begun=0, active=0, places=1)

    def beat(self, now: float, load: Load) -> None:
        """The main loop has turned, with this in hand."""
        progress = load.begun != self._load.begun
        if load.saturated:
            self.taken = now
        if load.full or progress:
            self.answered = now
        if not load.full or progress:
            self.moved = now
        self._load = load

    def problem(self, now: float) -> str | None:
        """What is wrong with the worker, or None where it works."""
        if self._load.missing:
            return f"it does not consume {', '.join(self._load.missing)}"
        if now - self.taken > self.limit:
            return f"it has not got its own message back from the broker for {now - self.taken:.0f} s"
        if now - self.answered > self.limit:
            return f"its pool has free places, but has not answered for {now - self.answered:.0f} s"
        if now - self.moved > BUSY:
            return f"all {self._load.places} places of its pool have been taken for {now - self.moved:.0f} s"
        return None
