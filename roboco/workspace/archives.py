"""Archives in folders and buckets."""

from collections.abc import Collection
from functools import lru_cache

from roboco.errors import UsageError
from roboco.ports.workspace import Files, OpenArchive
from roboco.workspace.open import open_workspace


def archives(addresses: Collection[str], s3_endpoint_url: str | None = None, s3_timeout: float = 20.0) -> OpenArchive:
    """Return the opener of archives at the addresses that the operator's rules name, at the workspace's endpoint."""

    @lru_cache(maxsize=100)
    def open_archive(address: str) -> Files:
        """Return the files below the address, which may be one of a record that a worker has written."""
        if address not in addresses:
            raise UsageError(
                f"archive {address!r} is named by no rule of ROBOCO_RETENTION_RULES; name it there, or remove the file "
                "by hand"
            )
        return open_workspace(address, s3_endpoint_url, s3_timeout).files

    return open_archive
