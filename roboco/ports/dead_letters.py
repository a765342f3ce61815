"""Dead letters: messages and work that Roboco no longer attempts."""

from dataclasses import dataclass
from typing import Protocol

from roboco.domain.dead_letter import DeadLetter


@dataclass(frozen=True)
class DeadLetterPage:
    """Dead letters, newest first."""

    letters: list[DeadLetter]
    cursor: str
    """The cursor of the next page, or "" after the last one."""


class DeadLetters(Protocol):
    """Messages that Roboco no longer tries to deliver, and work that it no longer attempts."""

    def add(self, letter: DeadLetter) -> None:
        """Store the letter. It replaces one with the same id. If there are too many, the oldest ones are removed."""

    def get(self, letter_id: str) -> DeadLetter | None:
        """Return the letter with this id, or None."""

    def entries(self) -> list[DeadLetter]:
        """Return all letters, oldest first."""

    def page(self, limit: int, cursor: str = "") -> DeadLetterPage:
        """Return at most `limit` letters, the newest first. Letters that are stored or removed meanwhile move none.

        Raise UsageError if the cursor is not one of a page. Cost: O(letters of the page), of bounded size.
        """

    def count(self) -> int:
        """Return the number of letters."""

    def remove(self, letter_id: str) -> None:
        """Remove the letter with this id, if there is one."""
