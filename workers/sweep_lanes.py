"""sweep_lanes: threads of a coordinator that share the shards of the schedule.

    shard (in turn) ─► claim one due entry ─► process it ─► next shard
                       │ none: rest for one interval
                       │ the shard does not answer: rest with growing delays

A thread claims an entry only when it can process it at once, so no claimed entry waits behind another one. A shard has
at most LANES_PER_SHARD threads, and a second one only if entries were due or the first one takes long. A shard whose
last sweep has failed gets no second one. So a task, a key or a node that does not answer occupies the threads of its
shards, and others remain for the rest. If the process dies, its claims expire.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable

from roboco.domain.ids import SHARDS
from roboco.engine.backoff import Backoff
from roboco.errors import RobocoError

_log = logging.getLogger(__name__)

THREADS = 16
"""Threads of a coordinator. Of a cluster of three nodes, one owns six shards at most. If that node hangs, they occupy
twelve threads during the first time-out, and six during later ones."""
LANES_PER_SHARD = 2
"""Threads that process entries of one shard at the same time."""
INTERVAL_MARGIN = 0.9
"""The part of the interval for which an idle shard rests, so that a thread that wakes each interval finds it ready."""


class SweepLanes:
    """The shards that the threads of this process take in turn. `sweep` processes one entry; it returns their number.

    `first_shard` differs between processes, so that they begin at different shards.
    """

    def __init__(
        self,
        sweep: Callable[[int], int],
        interval: float,
        first_shard: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sweep = sweep
        self._rest = interval * INTERVAL_MARGIN
        self._clock = clock
        self._lock = threading.Lock()
        self._next = first_shard
        self._running = Counter[int]()
        self._ready_at = [0.0] * SHARDS
        self._is_busy = [False] * SHARDS
        self._has_failed = [False] * SHARDS
        self._taken_at = [0.0] * SHARDS
        self._backoff = Backoff()
        self.is_open = False
        """True if passes may start. Assigned from other threads and from a signal handler, so no lock guards it."""

    def run(self) -> None:
        """Sweep shard after shard, until no shard is ready or the lanes are closed. Each thread calls it repeatedly."""
        while (shard := self._take()) is not None:
            self._sweep_one(shard)

    def retry_failed(self) -> None:
        """Let the shards whose last sweep has failed be swept at once: Redis answers again."""
        with self._lock:
            self._ready_at = [
                0.0 if failed else at for at, failed in zip(self._ready_at, self._has_failed, strict=True)
            ]

    def _sweep_one(self, shard: int) -> None:
        try:
            found = self._sweep(shard)
        except RobocoError as error:
            _log.warning("a sweep of shard %d failed and is tried again: %s", shard, error)
            self._release(shard, failed=True)
        except Exception:
            _log.exception("a sweep of shard %d failed and is tried again", shard)
            self._release(shard, failed=True)
        else:
            self._release(shard, found)

    def _take(self) -> int | None:
        """Return the next shard that is ready, in turn, or None if there is none."""
        now = self._clock()
        with self._lock:
            for offset in range(SHARDS):
                shard = (self._next + offset) % SHARDS
                if self.is_open and self._ready_at[shard] <= now and self._has_free_lane(shard, now):
                    self._next = shard + 1
                    self._running[shard] += 1
                    self._taken_at[shard] = now
                    return shard
        return None

    def _has_free_lane(self, shard: int, now: float) -> bool:
        needs_more = self._is_busy[shard] or self._taken_at[shard] + self._rest <= now
        needs_more = needs_more and not self._has_failed[shard]
        return self._running[shard] < (LANES_PER_SHARD if needs_more else 1)

    def _release(self, shard: int, found: int = 0, failed: bool = False) -> None:
        with self._lock:
            self._running[shard] -= 1
            self._is_busy[shard] = found > 0
            self._has_failed[shard] = failed
            if failed:
                self._ready_at[shard] = self._clock() + self._backoff.record_failure(str(shard))
                return
            self._backoff.reset(str(shard))
            if not found:
                self._ready_at[shard] = self._clock() + self._rest
