"""The schedule: when the sweeper passes over each open task next."""

from collections.abc import Iterator
from typing import Protocol


class Schedule(Protocol):
    """The time of the next sweep of each open task, by the clock of the server that leases go by.

    Callers give delays in seconds, so that the clocks of machines may differ.
    """

    def put(self, task_id: str, delay: float = 0.0) -> None:
        """Make the task due after the delay."""

    def add(self, task_id: str, delay: float = 0.0) -> bool:
        """Make the task due after the delay, unless it has a time already. Return True if it had none."""

    def schedule_no_later_than(self, task_id: str, delay: float = 0.0) -> None:
        """Make the task due after the delay, unless it is due earlier."""

    def due(self, limit: int) -> list[str]:
        """Return at most `limit` due tasks, earliest first."""

    def at(self, task_id: str) -> float | None:
        """Return when the task is due, in Unix seconds; None if it has no time."""

    def drop(self, task_id: str, at: float | None = None) -> None:
        """Remove the task from the schedule. With `at`, only if it is due then: somebody may have put it anew."""

    def count(self) -> int:
        """Return the number of tasks that have a time: all open tasks."""

    def known(self) -> Iterator[str]:
        """Return every task that has a time, in any order, read in pages."""

    def time(self) -> float:
        """Return the server's time in Unix seconds."""

    def lock(self, token: str, seconds: float) -> bool:
        """Take the sweepers' lock for so many seconds. Return False if another sweeper holds it."""

    def intact(self) -> bool:
        """Return True if Redis was neither emptied nor restarted since the last `begin`."""

    def recovered(self, task_id: str) -> str | None:
        """Return the name of this run of Redis if it is intact and the sweeper has nothing to recover of the task.

        All items that were accepted before are noted then. None if a sweeper has to recover the task first.
        """

    def restarted(self) -> bool:
        """Return True if Redis was restarted or replaced since the last `begin`, and not if it was emptied."""

    def fresh(self) -> bool:
        """Return True if the last `begin` was less than its `seconds` ago."""

    def run(self) -> str:
        """Return the name of this run of the server."""

    def prepare(self) -> str:
        """Mark that the schedule is about to be filled, and return the mark.

        Until `begin`, a schedule that was not intact is not. Sweepers that fill it at the same time share a mark.
        """

    def begin(self, seconds: float, mark: str | None = None) -> None:
        """Record that the schedule holds every open task, which counts as fresh for so many seconds.

        Nothing is recorded if Redis has lost the `mark`. If it was restarted since the mark was made, it does not count
        as intact.
        """
