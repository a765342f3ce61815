"""history_tail: the newest steps of a task, also those that Redis has trimmed.

    Redis: tail of bounded bytes ─► long enough? ─► no: cache of this process ─► history in the workspace

Redis keeps the tail short, so no decision and no prompt may depend on its length. A worker that needs more steps reads
them from the workspace, once: the next turns in its process find them in the cache. A task whose steps are short never
needs this.
"""

import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import takewhile

from roboco.domain.history.state import History, is_conclusive
from roboco.domain.history.step import TaskStep, last_answer
from roboco.ports.histories import Histories
from roboco.ports.snapshot import COORDINATOR_TAIL_LENGTH, Snapshot

MAX_CACHE_BYTES = 32 * 1024 * 1024
"""Bytes of JSON of the cached steps of a process; in memory they take a few times as much."""


class StepCache:
    """Steps by their digest. A digest names one step for ever, so an entry is never out of date."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._steps: OrderedDict[str, tuple[TaskStep, int]] = OrderedDict()
        self._size = 0

    def add(self, steps: Iterable[TaskStep]) -> None:
        """Add the steps. Remove those that were used least recently while the cache is too large."""
        with self._lock:
            for step in steps:
                if step.digest in self._steps:
                    self._steps.move_to_end(step.digest)
                    continue
                size = len(step.line())
                self._steps[step.digest] = step, size
                self._size += size
            while self._size > MAX_CACHE_BYTES:
                _, (_, size) = self._steps.popitem(last=False)
                self._size -= size

    def before(self, step: TaskStep, start: int) -> list[TaskStep]:
        """Return the steps before this one, in order, back to position `start` or to the first missing one."""
        found: list[TaskStep] = []
        with self._lock:
            while step.seq > start and (entry := self._steps.get(step.prev_digest)) is not None:
                self._steps.move_to_end(step.prev_digest)
                step = entry[0]
                found.append(step)
        return found[::-1]


class HistoryTails:
    """Completes the tails of tasks."""

    def __init__(self, histories: Histories, cache: StepCache) -> None:
        self._histories = histories
        self._cache = cache

    def complete(self, task_id: str, task: Snapshot, length: int) -> Snapshot:
        """Return the task with this number of its newest steps, or with all of them.

        Cost: nothing if Redis has them or the process has cached them. Else one read of the end of the history: in S3 a
        LIST, a HEAD, and a GET for each of these steps that is not compacted, or one for those that are.
        """
        start, first = max(0, task.position.seq - length), task.steps.tail[0]
        if first.seq <= start:
            return task
        older = self._cache.before(first, start)
        if (older[0] if older else first).seq > start:
            older = list(takewhile(lambda step: step.seq < first.seq, self._histories.read(task_id, start)))
        tail = (*older, *task.steps.tail)
        self._cache.add(tail)
        return replace(task, steps=replace(task.steps, tail=tail))

    def complete_for_decision(self, task_id: str, task: Snapshot, routes_by_run: bool) -> Snapshot:
        """Return the task with all steps on which a decision of a built-in router may depend.

        Cost: nothing if the last two steps before new messages of the user suffice, else as `complete`.
        """
        if shows_decision(task, routes_by_run):
            return task
        return self.complete(task_id, task, COORDINATOR_TAIL_LENGTH)

    def last_answer(self, task_id: str, task: Snapshot) -> TaskStep | None:
        """Return the newest step of an agent with a text among those that a coordinator loads, or None.

        Cost: nothing if Redis has one, else as `complete`.
        """
        found = last_answer(task.steps.tail)
        return found or last_answer(self.complete(task_id, task, COORDINATOR_TAIL_LENGTH).steps.tail)


def shows_decision(task: Snapshot, routes_by_run: bool) -> bool:
    """Return True if the loaded steps lead to the same decision as all that a coordinator would load."""
    if task.steps.tail[0].seq == 0 or len(task.steps.tail) >= COORDINATOR_TAIL_LENGTH:
        return True
    return is_conclusive(History(task.state, task.steps.tail), routes_by_run)


def step_at(histories: Histories, task_id: str, tail: Sequence[TaskStep], seq: int) -> TaskStep:
    """Return the step at this position. Cost: one read of the history if it is older than the tail."""
    found = next((step for step in tail if step.seq == seq), None)
    return found or next(histories.read(task_id, seq))
