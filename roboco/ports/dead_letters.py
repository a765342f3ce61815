"""Dead letters: messages and work that Roboco no longer tries."""

from typing import Protocol

from roboco.domain.dead_letter import DeadLetter


class DeadLetters(Protocol):
    """Messages and work that Roboco no longer tries to deliver or to do."""

    def add(self, letter: DeadLetter) -> None:
        """Store the letter, in place of one with the same id. If there are too many, the oldest ones are removed."""

    def letter(self, letter_id: str) -> DeadLetter | None:
        """Return the letter with this id, or None if there is none."""

    def letters(self) -> list[DeadLetter]:
        """Return all letters, oldest first."""

    def remove(self, letter_id: str) -> None:
        """Remove the letter, if there is one with this id."""
