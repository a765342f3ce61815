"""The histories of tasks, in the workspace."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from roboco.domain.history.step import TaskStep


class Histories(Protocol):
    """The histories of tasks. They are append-only, and for each position one writer wins."""

    def append(self, task_id: str, step: TaskStep) -> TaskStep:
        """Store the sealed step at its position. Return the step at that position: this one, or the one that won."""

    def create(self, task_id: str, lines: Sequence[bytes]) -> bool:
        """Store the lines as the first steps of a history that has none, all or nothing.

        Return True also if it begins with them already. Return False, and change nothing, if it has others.
        """

    def read(self, task_id: str, start: int = 0) -> Iterator[TaskStep]:
        """Yield the committed steps from a position on, each exactly once and in order.

        Cost: that of these steps. Older ones cost nothing.
        """

    def lines(self, task_id: str) -> Iterator[bytes]:
        """Yield the stored lines without parsing them, oldest first."""

    def compact(self, task_id: str) -> bool:
        """Compact the steps stored in segments into `history.jsonl`. This is safe at any time, also concurrently.

        Return True if `history.jsonl` now contains every step that was committed before the call. Return False if it
        may not, because another worker compacts at the same time, or a step is missing: call again later.
        """
