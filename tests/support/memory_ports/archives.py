"""Archives in memory."""

from dataclasses import dataclass, field
from typing import BinaryIO


@dataclass
class MemoryArchives:
    """Files by address and name, and their storage classes."""

    held: dict[str, bytes] = field(default_factory=dict)
    storage_classes: dict[str, str] = field(default_factory=dict)

    def store(self, address: str, name: str, source: BinaryIO, storage_class: str = "") -> None:
        """Store the remaining bytes of the source."""
        self.held[f"{address}/{name}"] = source.read()
        self.storage_classes[f"{address}/{name}"] = storage_class

    def size(self, address: str, name: str) -> int | None:
        """Return the size of the file, or None if there is none."""
        data = self.held.get(f"{address}/{name}")
        return None if data is None else len(data)

    def delete(self, address: str, name: str) -> None:
        """Remove the file, if it exists."""
        self.held.pop(f"{address}/{name}", None)
