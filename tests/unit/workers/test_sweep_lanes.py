"""sweep_lanes: a task or a shard that does not answer delays no other."""

import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from roboco.domain.ids import SHARDS
from roboco.engine.operate.fill import FillStep
from roboco.errors import TransientError
from roboco.workers.sweep_lanes import LANES_PER_SHARD, THREADS, SweepLanes
from roboco.workers.sweeper import FILL_TIMEOUT, ScheduleFill

INTERVAL = 1.0
TIMEOUT = 60.0
"""Seconds after which a test that waits for a thread fails."""


class Shards:
    """The due entries of each shard. A sweep of a blocked shard hangs; one of a failing shard raises."""

    def __init__(self, entries: int = 0) -> None:
        self.due = Counter(dict.fromkeys(range(SHARDS), entries))
        self.swept = list[int]()
        self.blocked = set[int]()
        self.failing = set[int]()
        self.hanging = threading.Semaphore(0)
        """Counts the sweeps that hang."""
        self.released = threading.Event()
        self._lock = threading.Lock()

    def sweep(self, shard: int) -> int:
        with self._lock:
            self.swept.append(shard)
            found = self.due[shard] > 0
            self.due[shard] -= found
        if shard in self.blocked:
            self.hanging.release()
            assert self.released.wait(TIMEOUT)
        if shard in self.failing:
            raise TransientError("time-out")
        return found


class Clock:
    """The time in seconds."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def lanes_of(shards: Shards, clock: Clock, first_shard: int = 0) -> SweepLanes:
    lanes = SweepLanes(shards.sweep, INTERVAL, first_shard, clock)
    lanes.is_open = True
    return lanes


@contextmanager
def threads_of(lanes: SweepLanes, shards: Shards, hanging: int) -> Iterator[ThreadPoolExecutor]:
    """Start threads until this number hangs."""
    with ThreadPoolExecutor(THREADS) as pool:
        for _ in range(hanging):
            pool.submit(lanes.run)
            assert shards.hanging.acquire(timeout=TIMEOUT)
        yield pool
        shards.released.set()


def test_a_hanging_task_delays_no_other_task() -> None:
    shards = Shards(5)
    shards.blocked = {3}
    clock = Clock()
    lanes = lanes_of(shards, clock)
    with threads_of(lanes, shards, hanging=1):
        shards.blocked = set()
        clock.now += INTERVAL
        lanes.run()
        assert not shards.due.total(), "the other lane of the shard sweeps the rest of it"


def test_a_hanging_shard_occupies_two_threads_at_most() -> None:
    shards, clock = Shards(50), Clock()
    shards.blocked = {3, 4}
    lanes = lanes_of(shards, clock)
    with threads_of(lanes, shards, hanging=2) as pool:
        clock.now += INTERVAL
        for _ in range(2):
            pool.submit(lanes.run)
            assert shards.hanging.acquire(timeout=TIMEOUT)
        lanes.run()
        assert {shard for shard, left in shards.due.items() if left} == {3, 4}
        assert Counter(shards.swept)[3] == Counter(shards.swept)[4] == LANES_PER_SHARD


def test_a_shard_that_fails_is_tried_again_with_growing_delays() -> None:
    shards, clock = Shards(), Clock()
    shards.failing = {7}
    lanes = lanes_of(shards, clock)
    for _ in range(60):
        lanes.run()
        clock.now += INTERVAL
    counts = Counter(shards.swept)
    assert counts.pop(7) == 6, "after 0, 1, 3, 7, 15 and 31 s"
    assert set(counts.values()) == {60}
    shards.failing = set()
    for _ in range(30):
        lanes.run()
        clock.now += INTERVAL
    assert Counter(shards.swept)[7] > 20


def test_the_lanes_open_when_the_fill_allows_passes() -> None:
    lanes = SweepLanes(Shards().sweep, INTERVAL)
    steps = [FillStep(moved=True, blocks_passes=True), FillStep(moved=False, blocks_passes=True)]
    fill = ScheduleFill(lanes, lambda: steps.pop(0))
    assert is_open_after(fill, lanes) is False
    assert not steps, "it processes pages until none is left"
    steps += [FillStep(moved=True, blocks_passes=False), FillStep(moved=False, blocks_passes=False)]
    assert is_open_after(fill, lanes) is True
    fill.stop()
    steps += [FillStep(moved=False, blocks_passes=False)]
    assert is_open_after(fill, lanes) is False, "the worker shuts down"


def test_a_fill_without_an_answer_closes_the_lanes_for_a_limited_time() -> None:
    """Redis may have been restarted. Or the one node does not answer that has the record of the fill."""
    clock, answers = Clock(), [False]
    lanes = SweepLanes(Shards().sweep, INTERVAL)

    def step() -> FillStep:
        if not answers:
            raise TransientError("time-out")
        return FillStep(moved=False, blocks_passes=answers.pop())

    fill = ScheduleFill(lanes, step, clock=clock)
    assert is_open_after(fill, lanes) is True
    assert is_open_after(fill, lanes) is False
    clock.now += FILL_TIMEOUT
    assert is_open_after(fill, lanes) is True
    answers.append(True)
    assert is_open_after(fill, lanes) is False


def test_the_end_of_a_silence_of_redis_lets_failed_shards_be_swept_at_once() -> None:
    shards, clock, answers, silences = Shards(), Clock(), [False, True, False], list[float]()
    lanes = lanes_of(shards, clock)

    def step() -> FillStep:
        if not answers.pop():
            raise TransientError("time-out")
        return FillStep(moved=False, blocks_passes=False)

    def on_answer(seconds: float) -> None:
        silences.append(seconds)
        lanes.retry_failed()

    fill = ScheduleFill(lanes, step, on_answer, clock)
    shards.failing = {7}
    for _ in range(28):
        lanes.run()
        clock.now += INTERVAL
    fill.run()
    assert silences == []
    shards.failing, before = set(), shards.swept.count(7)
    fill.run()
    lanes.run()
    assert silences == [28 * INTERVAL]
    assert shards.swept.count(7) == before + 1


def is_open_after(fill: ScheduleFill, lanes: SweepLanes) -> bool:
    """Run the fill once. Return True if passes may start then."""
    fill.run()
    return lanes.is_open
