"""The logs of both channels of a task."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from roboco.domain.stream.event import AnyEvent


@dataclass(frozen=True)
class LogTrim:
    """A removal of the oldest messages from the logs of a task."""

    generation: str
    """The generation of the logs."""
    first: int
    """The first event of the log, as the caller has read it."""
    archived: int
    """The last event that is archived in the workspace."""
    keep_from: int
    """The first event to keep, at most the one after `archived`."""
    removed_bytes: int
    """The size of the events from `first` to before `keep_from`."""
    chunks_from: int = 0
    """The first chunk to keep, or 0 to keep all chunks."""


class EventLogs(Protocol):
    """The logs of both channels."""

    def events(self, task_id: str, after: int) -> Iterator[bytes]:
        """Yield the messages of the execution channel after this number that are not trimmed, oldest first."""

    def chunks(self, task_id: str, after: int) -> Iterator[bytes]:
        """Yield the messages of the content channel after this number that are not trimmed, oldest first."""

    def trim(self, task_id: str, trim: LogTrim) -> bool:
        """Remove archived events, and old chunks, from the logs. The last event always remains.

        Return True also if this call was made before. Return False, and change nothing, if the generation differs, if
        another call has trimmed or archived since, or if an event would be removed that must remain.
        """

    def publish_unlogged(self, task_id: str, event: AnyEvent) -> None:
        """Publish an event of a task that does not exist. It has no number and is stored in no log."""
