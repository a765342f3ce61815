"""The logs of both channels of a task."""

from collections.abc import Iterator
from typing import Protocol

from roboco.domain.stream.event import AnyEvent


class EventLogs(Protocol):
    """The logs of both channels."""

    def events(self, task_id: str, after: int) -> Iterator[bytes]:
        """Yield the messages of the execution channel after this number, oldest first."""

    def chunks(self, task_id: str, after: int) -> Iterator[bytes]:
        """Yield the messages of the content channel after this number that are not trimmed, oldest first."""

    def publish_unlogged(self, task_id: str, event: AnyEvent) -> None:
        """Publish an event of a task that does not exist. It has no number and is stored in no log."""
