"""Archives in memory."""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import BinaryIO, cast

from roboco.errors import UsageError
from roboco.ports.workspace import Files


@dataclass
class MemoryArchives:
    """Files by address and name, and their storage classes. Rules name the addresses `named`, or all."""

    held: dict[str, bytes] = field(default_factory=dict)
    storage_classes: dict[str, str] = field(default_factory=dict)
    named: Collection[str] | None = None

    def open(self, address: str) -> Files:
        """Return the files at the address."""
        if self.named is not None and address not in self.named:
            raise UsageError(f"archive {address!r} is named by no rule")
        return cast(Files, _Archive(self, address))


@dataclass(frozen=True)
class _Archive:
    archives: MemoryArchives
    address: str

    def put_from(self, name: str, source: BinaryIO, storage_class: str = "") -> None:
        self.archives.held[f"{self.address}/{name}"] = source.read()
        self.archives.storage_classes[f"{self.address}/{name}"] = storage_class

    def size(self, name: str) -> int | None:
        data = self.archives.held.get(f"{self.address}/{name}")
        return None if data is None else len(data)

    def delete(self, name: str) -> None:
        self.archives.held.pop(f"{self.address}/{name}", None)
