"""The sweeper's schedule, the inboxes of tasks, their logs, counts of attempts, and dead letters."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from roboco.domain.dead_letter import DeadLetter
from roboco.domain.stream.event import AnyEvent


class Agenda(Protocol):
    """The time of the next sweep of each open task, by the clock of the server that leases go by.

    Callers give delays in seconds, so that the clocks of machines may differ.
    """

    def put(self, task_id: str, delay: float = 0.0) -> None:
        """Make the task due after the delay."""

    def add(self, task_id: str, delay: float = 0.0) -> bool:
        """Make the task due after the delay, unless it has a time already. Return True if it had none."""

    def hasten(self, task_id: str, delay: float = 0.0) -> None:
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


class Inbox(Protocol):
    """The ids of the items that wait for a task. The items themselves are in the workspace."""

    def knock(
        self,
        task_id: str,
        item_ids: Sequence[str],
        urgent: bool = False,
        epoch: int | None = None,
        hold: bool = False,
    ) -> None:
        """Add the items. With `urgent`, also request that the workers end the task's pending turn or calls now.

        With an epoch, the request is for the work of that epoch only. With `hold`, no worker can claim the pending turn
        from now on; a worker that has claimed it continues.
        """

    def count(self, task_id: str) -> int:
        """Return the number of items."""

    def calm(self, task_id: str, epoch: int) -> None:
        """Withdraw the request to end the pending work of this epoch."""

    def forget(self, task_id: str, item_id: str) -> None:
        """Remove the item."""


class Logs(Protocol):
    """The logs of both channels."""

    def events(self, task_id: str, after: int) -> Iterator[bytes]:
        """Return the messages of the execution channel after this number, oldest first."""

    def chunks(self, task_id: str, after: int) -> Iterator[bytes]:
        """Return the messages of the content channel after this number that are still kept, oldest first."""

    def announce(self, task_id: str, event: AnyEvent) -> None:
        """Publish an event of a task that does not exist. It has no number and is stored in no log."""


class Attempts(Protocol):
    """Counts of attempts at work that may end its worker. They are kept outside the messages that announce the work."""

    def begin(self, key: str) -> int | None:
        """Begin an attempt, with a lease. Return how many earlier attempts have not ended.

        None, and nothing is counted, while another attempt has the lease.
        """

    def renew(self, key: str) -> bool:
        """Renew the lease. Return False if it has expired."""

    def count(self, key: str) -> int:
        """Begin an attempt without a lease. Return how many earlier attempts have not ended."""

    def end(self, key: str) -> None:
        """End the lease and reset the count: the work has finished, with success or with an error."""


class DeadLetters(Protocol):
    """Messages and work that Roboco no longer tries to deliver or to do."""

    def bury(self, letter: DeadLetter) -> None:
        """Store the letter, in place of one with the same id. If there are too many, the oldest ones are removed."""

    def letter(self, letter_id: str) -> DeadLetter | None:
        """Return the letter with this id, or None if there is none."""

    def letters(self) -> list[DeadLetter]:
        """Return all letters, oldest first."""

    def remove(self, letter_id: str) -> None:
        """Remove the letter, if there is one with this id."""
