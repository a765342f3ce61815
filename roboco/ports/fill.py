"""Fill: the record of a filling of the schedule from the workspace, which all coordinators continue page by page."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Self

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
