"""Archives in folders and buckets."""

import importlib
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import unquote, urlsplit

from roboco.errors import UsageError
from roboco.workspace.folder import FolderFiles


@dataclass(frozen=True)
class StoreArchives:
    """Files below the addresses that the operator's rules name. Buckets are at the workspace's endpoint."""

    addresses: Collection[str]
    s3_endpoint_url: str | None = None
    s3_timeout: float = 20.0

    def store(self, address: str, name: str, source: BinaryIO, storage_class: str = "") -> None:
        """Store the rest of the source."""
        extra = {"StorageClass": storage_class} if storage_class else {}
        self._open(address).put_from(name, source, **extra)

    def size(self, address: str, name: str) -> int | None:
        """Return the size of the file in bytes, or None if there is none."""
        found: int | None = self._open(address).size(name)
        return found

    def delete(self, address: str, name: str) -> None:
        """Remove the file, if it exists."""
        self._open(address).delete(name)

    def _open(self, address: str) -> Any:
        """Return the files below an address of a rule. An address may be one of a record that a worker has written."""
        if address not in self.addresses:
            raise UsageError(
                f"archive {address!r} is named by no rule of ROBOCO_RETENTION_RULES; name it there, or remove the file "
                "by hand"
            )
        return _open_store(address, self.s3_endpoint_url, self.s3_timeout)


@lru_cache(maxsize=100)
def _open_store(address: str, endpoint_url: str | None, timeout: float) -> Any:
    parts = urlsplit(address)
    if parts.scheme == "file":
        return FolderFiles(Path(unquote(parts.netloc + parts.path)).absolute())
    s3: Any = importlib.import_module("roboco.workspace.s3_open")  # which imports boto3
    return s3.open_objects(address, endpoint_url, timeout)
