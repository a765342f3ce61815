"""Dead letters: messages and work that Roboco no longer attempts."""

from typing import Protocol

from roboco.domain.dead_letter import DeadLetter


class DeadLetters(Protocol):
    """Messages that Roboco no longer tries to deliver, and work that it no longer attempts."""

    def add(self, letter: DeadLetter) -> None:
        """Store the letter. It replaces one with the same id. If there are too many, the oldest ones are removed."""

    def get(self, letter_id: str) -> DeadLetter | None:
        """Return the letter with this id, or None."""

    def entries(self) -> list[DeadLetter]:
        """Return all letters, oldest first."""

    def remove(self, letter_id: str) -> None:
        """Remove the letter with this id, if there is one."""
