"""The cache of the switches: the copy in Redis, which each worker reads. The record is in the workspace."""

from typing import Protocol

from roboco.errors import TransientError


class MissingRight(TransientError):
    """A server refuses its user a right. The call has changed nothing there; an operator may grant the right."""


class RefusedWrites(TransientError):
    """Redis answers, and refuses writes for now: its memory or disk is full, or it is a replica."""


class SwitchCache(Protocol):
    """A text with a revision. It is lost when Redis is emptied."""

    def read(self) -> str | None:
        """Return the text, or None if Redis does not have it. Raise TransientError if Redis does not answer."""

    def write(self, text: str, revision: int) -> None:
        """Store the text, unless one of a higher revision is stored. A repetition changes nothing."""
