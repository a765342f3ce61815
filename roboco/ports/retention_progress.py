"""The progress of the scan of the workspace for tasks whose retention has ended."""

import json
from dataclasses import asdict, dataclass
from typing import Protocol, Self


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


class RetentionProgress(Protocol):
    """The progress of the scan, shared by all coordinators. If Redis loses it, the scan begins anew.

    Methods raise TransientError if the server does not answer.
    """

    def lock(self, token: str, seconds: float) -> bool:
        """Acquire the right to scan for this number of seconds. Return False if another worker has it."""

    def now(self) -> float:
        """Return the time of the server, in Unix seconds."""

    def load(self) -> RetentionScan | None:
        """Return the scan that runs or was the last one, or None if there is none."""

    def save(self, before: RetentionScan | None, after: RetentionScan) -> bool:
        """Replace the progress. Return False, and change nothing, if it is not `before`.

        Return True also if it is `after` already: an answer may be lost.
        """
