"""Archives: places outside the workspace for tasks that are removed from it."""

from typing import BinaryIO, Protocol


class Archives(Protocol):
    """Files below addresses, which the rules of retention name. Methods raise TransientError if a store is silent."""

    def store(self, address: str, name: str, source: BinaryIO, storage_class: str = "") -> None:
        """Store the rest of the source, read once and in bounded memory. It replaces an older file of this name.

        If reading the source fails, raise its error, and change nothing. Raise UsageError if no rule names the address.
        """

    def size(self, address: str, name: str) -> int | None:
        """Return the size of the file in bytes, or None if there is none."""

    def delete(self, address: str, name: str) -> None:
        """Remove the file, if it exists. Raise UsageError if no rule names the address."""
