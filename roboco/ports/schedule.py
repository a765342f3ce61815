"""The schedule: the time of the sweeper's next pass over each open task, and how it is filled from the workspace."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, Self

from roboco.domain.ids import SHARDS


class FillKind(StrEnum):
    """Why the schedule is filled."""

    REFILL = "refill"
    """It is time: tasks that are missing from the schedule are added."""
    EMPTIED = "emptied"
    """Redis was emptied: every open task is recovered."""
    RESTARTED = "restarted"
    """Redis was restarted or replaced, and may have lost its last writes: every task gets new logs, too."""


class FillPhase(StrEnum):
    """The source of the entries of a fill."""

    SCHEDULED = "scheduled"
    """The schedule itself. Its cursor is a shard and a cursor of Redis."""
    OPEN = "open"
    """The markers of open tasks. The cursor is the last name."""
    NOTIFY = "notify"
    """The markers of tasks with undelivered notifications. The cursor is the last name."""
    ERASE = "erase"
    """The requests to erase tasks. The cursor is the last name."""
    DONE = "done"
    """Nothing is left, except to record that the schedule is filled."""


@dataclass(frozen=True)
class FillPosition:
    """The position of a fill before its next page."""

    kind: FillKind
    phase: FillPhase
    cursor: str = ""
    shards: frozenset[int] = frozenset(range(SHARDS))
    """The shards that this round fills: at first all, then those that did not answer in the round before."""
    missed: frozenset[int] = field(default_factory=frozenset)
    """The shards that have not answered in this round."""

    def to_text(self) -> str:
        """Return the position as one line. The cursor is last: a name in the workspace may contain any character."""
        shards, missed = (",".join(map(str, sorted(part))) for part in (self.shards, self.missed))
        return "|".join((self.kind, self.phase, shards, missed, self.cursor))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the position of this line."""
        kind, phase, shards, missed, cursor = text.split("|", 4)
        return cls(FillKind(kind), FillPhase(phase), cursor, _numbers(shards), _numbers(missed))


@dataclass(frozen=True)
class FillClaim:
    """The position of the fill, and whether the caller may process its next page."""

    position: FillPosition
    is_granted: bool


def _numbers(text: str) -> frozenset[int]:
    return frozenset(map(int, filter(None, text.split(","))))


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
