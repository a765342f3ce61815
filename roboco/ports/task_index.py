"""The task index: the tasks by status, tenant and time of change; and the scans of the workspace, page by page."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from typing import Any, Protocol, Self, TypeVar

from roboco.domain.task_entry import TaskEntry
from roboco.domain.task_filter import TaskFilter


@dataclass(frozen=True)
class _Progress:
    """The progress of a scan, as Redis keeps it."""

    later: dict[str, Any] = field(default_factory=dict, kw_only=True)
    """The fields that a later release has added."""

    def to_json(self) -> str:
        """Return the fields as JSON."""
        own = asdict(self)
        later = own.pop("later")
        return json.dumps(own | later)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the progress with these fields."""
        stored: dict[str, Any] = json.loads(text)
        known = {one.name for one in fields(cls)} & (stored.keys() - {"later"})
        own = {name: tuple(stored[name]) if isinstance(stored[name], list) else stored[name] for name in known}
        return cls(**own, later={name: value for name, value in stored.items() if name not in known})


@dataclass(frozen=True)
class Rebuild(_Progress):
    """A rebuild of the task index: the tasks up to `after` have entries."""

    rebuild_id: str
    """Unique for each rebuild."""
    instance_id: str
    """The Redis instance in which it began. Another instance may have lost entries."""
    after: str = ""
    """The cursor of the next page of task folders."""
    tasks_read: int = 0
    all_listed: bool = False
    """True if every page of folders has been read."""
    left_out: tuple[str, ...] = ()
    """Tasks that could not be read, because the workspace did not answer. They are read again after the last page."""

    @property
    def complete(self) -> bool:
        """True if every task has been read."""
        return self.all_listed and not self.left_out


@dataclass(frozen=True)
class RetentionScan(_Progress):
    """A scan: the tasks up to `after` have been read. Times are Unix seconds of the coordinators' clocks."""

    scan_id: str
    """Unique for each scan."""
    rules: str
    """A digest of the rules. If they change, the next scan begins at once."""
    began: float
    after: str = ""
    """The cursor of the next page of task folders."""
    tasks_read: int = 0
    due: int = 0
    """Tasks whose removal was requested."""
    next_page: float = 0.0
    """The time before which no page is read, so that few removals are pending at a time."""
    finished: float | None = None


S = TypeVar("S", Rebuild, RetentionScan)


@dataclass(frozen=True)
class TaskPage:
    """A page of a list of tasks, the latest change first. A page may be short, or empty, and have a cursor."""

    entries: tuple[TaskEntry, ...]
    cursor: str
    """The cursor of the next page, or "" after the last page."""
    complete: bool
    """False while the index is rebuilt from the workspace: until then tasks may be missing."""
    tasks_read: int = 0
    """The number of tasks that the rebuild has read so far."""
    trimmed_until: datetime | None = None
    """The time of change up to which ended tasks may have been removed, or None if none was removed."""


class TaskIndex(Protocol):
    """An entry for each open task, and for ended ones for a while. It is never the record: it can be rebuilt.

    It also keeps the progress of the scans of all tasks, which are lost together with the index.

    Methods raise TransientError if the server does not answer.
    """

    def put(self, entries: Sequence[TaskEntry]) -> None:
        """Store the entries, each in place of an older one of its task. A repetition is harmless.

        An entry with a lower epoch than the stored one is ignored. So is every entry of an open task after that of its
        end. While a task is queued or running, its entry keeps the times of the first entry with that status.
        """

    def remove(self, task_id: str, only_open: bool = False) -> None:
        """Remove the entry of the task, or with `only_open` that of a task that has not ended."""

    def trim(self, before: datetime, max_ended: int, limit: int) -> int:
        """Remove the oldest entries of ended tasks, those before a time and those beyond a number.

        Return how many were removed, at most `limit`.
        """

    def ended(self, task_ids: Sequence[str]) -> list[bool | None]:
        """Return for each task True if it has ended, False if it is open, and None if the index has no entry."""

    def team(self, task_id: str) -> str | None:
        """Return the name of the task's team, or None if the index has no entry."""

    def count_queued(self) -> int:
        """Return the number of tasks whose first turn has not begun, for example because they start later."""

    def page(self, wanted: TaskFilter, cursor: str = "", limit: int = 50) -> TaskPage:
        """Return at most `limit` entries that match, after the cursor, the latest change first.

        Conditions on team, text and `what_if` are checked on at most 2,000 entries for each page. A task that changes
        meanwhile moves to the front: the following pages lack it. Raise UsageError if the cursor is invalid.
        """

    def lock_scan(self, kind: type[S], token: str, seconds: float) -> bool:
        """Acquire the right to scan for this number of seconds. Return False if another worker has it."""

    def load_scan(self, kind: type[S]) -> S | None:
        """Return the scan of this kind that runs or was the last one, or None if none has begun since Redis lost it."""

    def save_scan(self, before: S | None, after: S) -> bool:
        """Replace the progress of the scan. Return False, and change nothing, if it is not `before`.

        Return True also if it is `after` already: an answer may be lost.
        """
