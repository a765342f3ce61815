"""BulkCursor: the position of a bulk control, as text that a caller keeps.

Other releases read it, except that of forks with another team.
"""

import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final, Self

from roboco.errors import UsageError

MAX_ROUNDS: Final = 1000
"""Rounds over the tasks that have changed during the round before. Each but the last one has sent an item."""
CLOCK_DIFFERENCE: Final = timedelta(minutes=1)
"""The clocks of workers differ by less, as a rule. A round begins that much earlier, so that it misses no change."""
MAX_CURSOR_CHARS: Final = 400
"""Characters of a cursor at most."""
_CURSOR: Final = re.compile(
    r"([A-Za-z0-9][A-Za-z0-9_-]{0,63})\.([0-9a-f]{8})\.(\d{13})\.(\d{13})\.(\d{1,3})\.(\d{13})\.(\d{13})\.([01])\.([\x21-\x7e]{0,250})"
)
_EPOCH: Final = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True)
class BulkCursor:
    """A position: the round, and the page of the task index in it. Times have milliseconds."""

    bulk_id: str
    digest: str
    """The digest of the control and its conditions, apart from times."""
    began: datetime
    """The beginning of the bulk control. Tasks that were created later are left as they are."""
    horizon: datetime
    """The latest time of creation that a task had then: later than `began` if the clock of a client is ahead."""
    round: int
    """The number of the round, from 0."""
    round_began: datetime
    since: datetime
    """The earliest change of a task of this round. Only the first round reads all tasks."""
    has_sent: bool
    """True if a task of this round has accepted its item."""
    page: str
    """The cursor of the task index."""

    @classmethod
    def start(cls, bulk_id: str, digest: str, began: datetime, horizon: datetime) -> Self:
        """Return the position before the first task."""
        return cls(bulk_id, digest, began, horizon, 0, began, _EPOCH, False, "")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the cursor of this text. Raise UsageError if it is none."""
        if (found := _CURSOR.fullmatch(text)) is None:
            raise UsageError(f"cursor {text[:80]!r} is not one of a bulk control; leave it out to begin at the front")
        bulk_id, digest, began, horizon, number, round_began, since, has_sent, page = found.groups()
        began, horizon, round_began, since = map(_time, (began, horizon, round_began, since))
        return cls(bulk_id, digest, began, horizon, int(number), round_began, since, has_sent == "1", page)

    def __str__(self) -> str:
        began, horizon, round_began, since = map(_digits, (self.began, self.horizon, self.round_began, self.since))
        position = f"{began}.{horizon}.{self.round}.{round_began}.{since}.{int(self.has_sent)}.{self.page}"
        return f"{self.bulk_id}.{self.digest}.{position}"

    def existed(self, created_at: datetime, now: datetime) -> bool:
        """Return True if a task with this time of creation existed when the bulk control began.

        The time is that of its client, whose clock may be ahead. Such a time is at most `horizon`; and after more than
        a minute it is in the future, or it is that of a new task.
        """
        is_near = created_at <= self.began + CLOCK_DIFFERENCE
        return created_at <= (self.horizon if is_near or created_at > now else self.began)

    def after(self, page: str, has_sent: bool, now: datetime) -> Self | None:
        """Return the position after a page of the index, or None after the last one.

        A task that changes while the pages are read moves to the front, and its old place is empty. So a further round
        reads the latest changes again, until a round sends no item.
        """
        sent = self.has_sent or has_sent
        if page:
            return replace(self, has_sent=sent, page=page)
        if not sent:
            return None
        since = max(self.since, self.round_began - CLOCK_DIFFERENCE)
        return replace(self, round=self.round + 1, round_began=now, since=since, has_sent=False, page="")


def _digits(time: datetime) -> str:
    return f"{(time - _EPOCH) // timedelta(milliseconds=1):013d}"


def _time(digits: str) -> datetime:
    return _EPOCH + timedelta(milliseconds=int(digits))
