"""TaskFilter: the tasks that a caller asks for."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from roboco.domain.duration import seconds_of
from roboco.domain.ids import what_if_id
from roboco.domain.status import TaskStatus
from roboco.domain.task_entry import TaskEntry
from roboco.errors import UsageError

STATUS_GROUPS = {
    "open": frozenset(status for status in TaskStatus if not status.ended),
    "waiting": frozenset(status for status in TaskStatus if status.waiting),
    "ended": frozenset(status for status in TaskStatus if status.ended),
}
"""Names for several statuses at once."""
STATUS_NAMES = (*STATUS_GROUPS, *(status.value for status in TaskStatus))


@dataclass(frozen=True)
class TaskFilter:
    """Conditions on a task. A task matches if it meets all of them."""

    statuses: frozenset[TaskStatus] = frozenset(TaskStatus)
    """The allowed statuses."""
    tenant: str | None = None
    """The tenant, "" for tasks without a tenant, or None for all tasks."""
    teams: frozenset[str] | None = None
    """The names of the teams, or None for all teams."""
    since: datetime | None = None
    """The earliest time of the last change, with a time zone."""
    until: datetime | None = None
    """The latest time of the last change, with a time zone."""
    text: str = ""
    """A part of the title, in upper or lower case."""
    what_if: bool | None = None
    """True for the runs of `what-if` and their sub-tasks alone, False for all other tasks, or None for both."""

    def matches(self, entry: TaskEntry) -> bool:
        """Return True if the entry meets all conditions."""
        return (
            entry.status in self.statuses
            and self.tenant in (None, entry.tenant)
            and (self.teams is None or entry.team in self.teams)
            and (self.since is None or entry.updated_at >= self.since)
            and (self.until is None or entry.updated_at <= self.until)
            and self.text.casefold() in entry.title.casefold()
            and self.what_if in (None, what_if_id(entry.task_id) is not None)
        )


def parse_statuses(names: Iterable[str]) -> frozenset[TaskStatus]:
    """Return the statuses with these names, or of these groups; all of them without a name.

    Raise UsageError if a name is unknown.
    """
    found = set[TaskStatus]()
    for name in (given := tuple(names)):
        if name not in STATUS_NAMES:
            raise UsageError(f"status {name!r} is unknown; statuses and groups: {', '.join(STATUS_NAMES)}")
        found |= STATUS_GROUPS.get(name) or {TaskStatus(name)}
    return frozenset(found) if given else frozenset(TaskStatus)


def parse_time(text: str, now: datetime) -> datetime:
    """Return the time that an ISO 8601 text names, or that was a duration such as `1d`, `2h` or `30m` before now.

    A time without a zone is in the zone of `now`. Raise UsageError for any other text.
    """
    if (seconds := seconds_of(text)) is not None:
        try:
            return now - timedelta(seconds=seconds)
        except OverflowError:
            raise UsageError(f"time {text!r} is before the first year; write a shorter duration") from None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"time {text!r} cannot be read: write a duration such as 30m, 2h or 1d, or a time such as 2026-01-31T09:30"
        ) from None
    return time if time.tzinfo is not None else time.replace(tzinfo=now.tzinfo)
