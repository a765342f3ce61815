"""Fill: the record of a filling of the schedule from the workspace, which all coordinators continue page by page."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from roboco.domain.shard import SHARDS


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


@dataclass(frozen=True)
class FillClaim:
    """The position of the fill, and whether the caller may process its next page."""

    position: FillPosition
    is_granted: bool


class FillRecord(Protocol):
    """The record of the current fill. A page is claimed for some seconds, so that a dead coordinator's is repeated.

    A record that no coordinator continues disappears after a quarter of an hour, before the next refill, whose mark may
    be the same.
    """

    def claim(self, mark: str, first: FillPosition, token: str, seconds: float) -> FillClaim:
        """Claim the next page of the fill with this mark. It begins with `first`, if there is no such fill.

        The claim is refused while another token has one. A fill with another mark is replaced. Use a new token for each
        page: a repeated call with the same token has the same effect.
        """

    def advance(self, token: str, position: FillPosition, delay: float = 0.0) -> bool:
        """Store the next position and release the claim. The next page may be claimed after the delay.

        Return False, and change nothing, if another coordinator has claimed the page since.
        """

    def finish(self, token: str) -> None:
        """Remove the record, unless another coordinator has claimed it since."""
