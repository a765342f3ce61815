"""liveness: the evidence that a worker works, collected in its own main loop, and the problem if it does not.

A process that exists proves nothing, and a main loop that runs proves little: the broker may have lost the consumer, or
the pool may be stuck. So the worker sends messages to itself over the channel that consumes its queues, and gives its
pool a job whenever a slot is free. A fully busy worker can do neither, and counts as live for MAX_BUSY_SECONDS.
"""

from dataclasses import dataclass
from math import inf
from typing import Final

MAX_BUSY_SECONDS: Final = 3600.0
"""Seconds after which a full pool that has started no job since then counts as stuck."""
MAX_UNANSWERED: Final = 4
"""Unanswered probes at most: more would only accumulate in a stuck pool."""


@dataclass(frozen=True)
class Load:
    """The load of a worker at one moment."""

    started: int
    """Celery tasks that it has started so far."""
    active: int
    """Celery tasks that run now."""
    slots: int
    """Celery tasks that its pool can run in parallel."""
    saturated: bool = False
    """True if it holds as many messages as its prefetch limit allows, so that it receives no further one."""
    missing: tuple[str, ...] = ()
    """Queues that it should consume and does not."""

    @property
    def full(self) -> bool:
        """True if no slot of the pool is free."""
        return self.active >= self.slots


@dataclass
class Probe:
    """A periodic probe. A lost probe is repeated, but at most OPEN probes are unanswered at one time."""

    interval: float
    unanswered: int = 0
    sent_at: float = -inf

    def due(self, now: float, answered: float) -> bool:
        """Return True if the probe is due, and count it as sent. `answered` is the time of the last answer."""
        due = now - max(answered, self.sent_at) >= self.interval and self.unanswered < MAX_UNANSWERED
        if due:
            self.unanswered += 1
            self.sent_at = now
        return due


@dataclass
class Liveness:
    """The last times at which the worker was seen to work; all times of one monotonic clock, in seconds."""

    limit: float
    """Seconds without evidence after which the worker counts as stuck."""
    received_at: float
    """When its own message last arrived from the broker."""
    pool_answered_at: float
    """When its pool last ran a job."""
    slot_free_at: float
    """When a slot of its pool was last free or became free."""
    _load: Load = Load(started=0, active=0, slots=1)

    def update(self, now: float, load: Load) -> None:
        """Record one iteration of the main loop with this load."""
        progress = load.started != self._load.started
        if load.saturated:
            self.received_at = now
        if load.full or progress:
            self.pool_answered_at = now
        if not load.full or progress:
            self.slot_free_at = now
        self._load = load

    def problem(self, now: float) -> str | None:
        """Return the problem of the worker, or None if it works."""
        if self._load.missing:
            return f"it does not consume {', '.join(self._load.missing)}"
        if now - self.received_at > self.limit:
            return f"it has not got its own message back from the broker for {now - self.received_at:.0f} s"
        if now - self.pool_answered_at > self.limit:
            return f"its pool has free slots, but has not answered for {now - self.pool_answered_at:.0f} s"
        if now - self.slot_free_at > MAX_BUSY_SECONDS:
            return f"all {self._load.slots} slots of its pool have been busy for {now - self.slot_free_at:.0f} s"
        return None
