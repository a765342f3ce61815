"""The progress of rebuilding the task index from the workspace."""

import json
from dataclasses import asdict, dataclass
from typing import Protocol, Self


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


class IndexProgress(Protocol):
    """The progress of the rebuild, shared by all coordinators. It is lost together with the index.

    Methods raise TransientError if the server does not answer.
    """

    def lock(self, token: str, seconds: float) -> bool:
        """Acquire the right to rebuild for this number of seconds. Return False if another worker has it."""

    def load(self) -> Rebuild | None:
        """Return the rebuild that runs or has completed, or None if none has begun since the index was lost."""

    def save(self, before: Rebuild | None, after: Rebuild) -> bool:
        """Replace the progress. Return False, and change nothing, if it is not `before`.

        Return True also if it is `after` already: an answer may be lost.
        """
