"""What the sweeper works from, and what came for a task from outside."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from roboco.domain.event import AnyEvent
from roboco.domain.letter import DeadLetter


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

    def drop(self, task_id: str) -> None:
        """Do not look at the task again."""

    def known(self) -> Iterator[str]:
        """Return every task that has a time, in any order, read in pages."""

    def time(self) -> float:
        """Return the server's time in Unix seconds."""

    def lock(self, token: str, seconds: float) -> bool:
        """Whether this sweeper may sweep now, for so many seconds."""

    def intact(self) -> bool:
        """Whether Redis holds all that it held at the last `begin`: not if it was emptied or started again."""

    def recovered(self, task_id: str) -> str | None:
        """Return the name of this run of Redis if it is intact and the sweeper has nothing to recover of the task.

        All items that were accepted before are noted then. None if a sweeper has to recover the task first.
        """

    def restarted(self) -> bool:
        """Whether Redis was started again, or replaced, since the last `begin`; not if it was emptied."""

    def fresh(self) -> bool:
        """Whether the last `begin` was less than its `seconds` ago."""

    def run(self) -> str:
        """Return the name of this run of the server."""

    def begin(self, seconds: float, run: str | None = None) -> None:
        """Note that every open task stands in the agenda; that is fresh for so many seconds.

        `run` is the run in which the caller looked for them (None: this one). If the server was restarted since, it is
        not intact.
        """


class Inbox(Protocol):
    """Which items wait for a task; what they say is in the workspace."""

    def knock(
        self,
        task_id: str,
        item_ids: Sequence[str],
        urgent: bool = False,
        epoch: int | None = None,
        hold: bool = False,
    ) -> None:
        """Note the items. With `urgent`, whoever works at the task's pending turn or calls is asked to end that now.

        Given an epoch, only the work of that one is concerned. With `hold`, no worker can claim the pending turn any
        more; a worker that has claimed it goes on.
        """

    def count(self, task_id: str) -> int:
        """Return how many items are noted."""

    def calm(self, task_id: str, epoch: int) -> None:
        """Nobody wants the pending work of this epoch to end any more."""

    def forget(self, task_id: str, item_id: str) -> None:
        """The item was taken over."""


class Logs(Protocol):
    """The logs of both channels."""

    def events(self, task_id: str, after: int) -> Iterator[bytes]:
        """The messages of the execution channel after this number, oldest first."""

    def chunks(self, task_id: str, after: int) -> Iterator[bytes]:
        """The messages of the content channel after this number that are still kept, oldest first."""

    def announce(self, task_id: str, event: AnyEvent) -> None:
        """Publish an event that belongs to no task that is known: it has no number and is in no log."""


class Attempts(Protocol):
    """Work that may kill whoever does it: counted outside of what announces it."""

    def begin(self, key: str) -> int | None:
        """Note that the work begins: how often it was begun before and not ended; None while somebody is at it.

        Whoever begins is at it for the time of a lease.
        """

    def renew(self, key: str) -> bool:
        """Be at it for one more lease."""

    def count(self, key: str) -> int:
        """Note that the work begins, whoever else may be at it: how often it was begun before and not ended."""

    def end(self, key: str) -> None:
        """The work has ended, well or with an error: what was counted is forgotten."""


class DeadLetters(Protocol):
    """Messages that nobody delivers any more."""

    def bury(self, letter: DeadLetter) -> None:
        """Keep the letter, in place of one with the same id; where there are too many, the oldest one goes."""

    def letter(self, letter_id: str) -> DeadLetter | None:
        """The letter of this id; None if there is none."""

    def letters(self) -> list[DeadLetter]:
        """All letters, oldest first."""

    def remove(self, letter_id: str) -> None:
        """Forget the letter, if it is there."""
