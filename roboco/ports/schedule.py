"""The schedule: the time of the sweeper's next pass over each open task."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from roboco.ports.fill import FillClaim, FillPosition


@dataclass(frozen=True)
class ClaimedEntry:
    """An entry that the caller processes now."""

    name: str
    """The task's id, or the name of a job."""
    at: float
    """The time at which the entry is due again, in Unix seconds. It identifies the claim."""
    overdue: float
    """Seconds for which the entry was due."""


@dataclass(frozen=True)
class ScheduledPage:
    """A page of the tasks of a shard."""

    task_ids: tuple[str, ...]
    cursor: int
    """The cursor of the next page, or 0 if this is the last one."""


class Schedule(Protocol):
    """The time of the sweeper's next pass over each open task, by the clock of the server that keeps the leases.

    Callers give delays in seconds, so that the clocks of machines may differ. Jobs have times beside the tasks; their
    names end in "/" and the id of a task. The schedule has SHARDS parts (`roboco/domain/ids.py`). A part that does
    not answer affects no call for another part.
    """

    def set(self, task_id: str, delay: float = 0.0) -> None:
        """Set the task's time to the delay from now."""

    def schedule_no_later_than(self, task_id: str, delay: float = 0.0) -> None:
        """Set the task's time to the delay from now, unless it is due earlier."""

    def enter(self, names: Sequence[str], delay: float = 0.0, replace: bool = True) -> frozenset[int]:
        """Set the time of each entry to the delay from now; without `replace` only for entries that have none.

        Return the shards that did not answer, whose entries may be missing. It is not atomic. Raise TransientError if
        no shard answers because there is one server.
        """

    def claim(self, shard: int, limit: int, seconds: float) -> list[ClaimedEntry]:
        """Claim at most `limit` due entries of the shard, earliest first: they are due again after these seconds.

        So concurrent callers get different entries. If the caller dies or the answer is lost, the entries are not lost,
        but late. If another call sets the time of a claimed entry meanwhile, that time counts.
        """

    def remove(self, task_id: str, at: float | None = None) -> None:
        """Remove the task from the schedule.

        With `at`, only if it is due then: another process may have set it again.
        """

    def count(self) -> int:
        """Return the number of tasks with a time: all open tasks. Cost: one request for each shard, sent at once."""

    def task_ids(self) -> Iterator[str]:
        """Yield every task with a time, in any order, read in pages."""

    def scan(self, shard: int, cursor: int = 0) -> ScheduledPage:
        """Return a page of the tasks of a shard, in any order. A task may be in several pages."""

    def time(self) -> float:
        """Return the server's time in Unix seconds."""

    def is_intact(self) -> bool:
        """Return True if Redis was neither emptied nor restarted since the last `mark_filled`."""

    def recovered_instance(self, task_id: str) -> str | None:
        """Return the name of this Redis instance if the schedule is intact and the task needs no recovery, else None.

        If it is returned, the inbox contains all items that were accepted before. If it is None, a sweeper must recover
        the task first.
        """

    def was_restarted(self) -> bool:
        """Return True if Redis was restarted or replaced since the last `mark_filled`. Not if it was emptied."""

    def recently_filled(self) -> bool:
        """Return True if the last `mark_filled` was less than its `seconds` ago."""

    def instance_id(self) -> str:
        """Return the name of this instance of the server. It changes with each restart."""

    def is_instance(self, instance_id: str) -> bool:
        """Return True if this is the instance of the server with that name.

        Nodes of a cluster that do not answer do not matter: `instance_id` lacks them, and they have lost nothing yet.
        """

    def mark_filling(self) -> str:
        """Mark that filling the schedule has started, and return the mark.

        A schedule that was not intact does not become intact before `mark_filled`. Sweepers that fill it
        concurrently share a mark.
        """

    def mark_filled(self, seconds: float, mark: str | None = None) -> None:
        """Record that the schedule contains every open task. It counts as recently filled for this number of seconds.

        Nothing is recorded if Redis has lost the `mark`. If Redis was restarted since the mark was made, the schedule
        does not count as intact.
        """

    def claim_fill(self, mark: str, first: FillPosition, token: str, seconds: float) -> FillClaim:
        """Claim the next page of the fill with this mark. It begins with `first`, if there is no such fill.

        The claim is refused while another token has one, for these seconds at most, so that a dead coordinator's page
        is repeated. A fill with another mark is replaced. Use a new token for each page: a repeated call with the same
        token has the same effect. The record of a fill that no coordinator continues disappears after a quarter of an
        hour, before the next refill, whose mark may be the same.
        """

    def advance_fill(self, token: str, position: FillPosition, delay: float = 0.0) -> bool:
        """Store the next position and release the claim. The next page may be claimed after the delay.

        Return False, and change nothing, if another coordinator has claimed the page since.
        """

    def finish_fill(self, token: str) -> None:
        """Remove the record of the fill, unless another coordinator has claimed it since."""
