"""Scans of the folders of the workspace, which all coordinators continue page by page."""

import json
from dataclasses import asdict, dataclass
from typing import Self, TypeVar


@dataclass(frozen=True)
class Rebuild:
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

    def to_json(self) -> str:
        """Return the fields as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the rebuild with these fields."""
        fields = json.loads(text)
        return cls(**fields | {"left_out": tuple(fields["left_out"])})


@dataclass(frozen=True)
class RetentionScan:
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

    def to_json(self) -> str:
        """Return the fields as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the scan with these fields."""
        return cls(**json.loads(text))


S = TypeVar("S", Rebuild, RetentionScan)
