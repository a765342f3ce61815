"""StepsOnDemand: a history as a sequence that reads only the steps that its reader needs."""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Final, overload

from roboco.domain.history.step import TaskStep
from roboco.errors import CorruptHistory

BLOCK_STEPS: Final = 64
"""Steps that are read at a time: the one that is needed, and those before it."""


class StepsOnDemand(Sequence[TaskStep]):
    """The first `count` steps of a history. `read` returns its steps from a position on.

    An index costs at most one read of BLOCK_STEPS. To iterate reads the whole history once, and holds nothing of it.
    """

    def __init__(self, read: Callable[[int], Iterator[TaskStep]], count: int) -> None:
        self._read = read
        self._count = count
        self._held: dict[int, TaskStep] = {}

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[TaskStep]:
        return islice(self._read(0), self._count)

    @overload
    def __getitem__(self, index: int) -> TaskStep: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[TaskStep]: ...

    def __getitem__(self, index: int | slice) -> TaskStep | Sequence[TaskStep]:
        places = range(self._count)[index]
        return self._step(places) if isinstance(places, int) else tuple(map(self._step, reversed(places)))[::-1]

    def _step(self, seq: int) -> TaskStep:
        if seq not in self._held:
            first = max(0, seq + 1 - BLOCK_STEPS)
            self._held.update((step.seq, step) for step in islice(self._read(first), seq + 1 - first))
        if seq not in self._held:
            raise CorruptHistory(f"the history has no step {seq}, although it has {self._count} steps")
        return self._held[seq]
