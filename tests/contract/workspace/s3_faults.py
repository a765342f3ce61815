"""S3 with faults: calls that are late or never happen, and calls that boto3 repeats after a lost response."""

import threading
from collections.abc import Callable
from typing import Any

from roboco.workspace.s3 import S3Objects, StoredObject


class Killed(Exception):
    """The death of a worker before a call to S3."""


class WatchedObjects(S3Objects):
    """S3 objects that record each call. Before each call they call `before` with its name and path; it may raise.

    `listed` is the number of names that were listed.
    """

    def __init__(self, client: Any, bucket: str, prefix: str) -> None:
        super().__init__(client, bucket, prefix)
        self._location = (client, bucket, prefix)
        self.calls: list[tuple[str, str]] = []
        self.listed = 0
        self.before: Callable[[str, str], None] = lambda name, path: None

    def for_another_worker(self) -> "WatchedObjects":
        """Return the same objects with separate records."""
        return WatchedObjects(*self._location)

    def die_before(self, name: str, nth: int = 1) -> None:
        """Raise Killed instead of the nth call of this name, and instead of every call after it."""
        left = nth
        lock = threading.Lock()

        def before(called: str, path: str) -> None:
            nonlocal left
            with lock:
                left -= called == name or left <= 0
                dead = left <= 0
            if dead:
                raise Killed(called, path)

        self.before = before

    def put(self, path: str, data: bytes, if_none: bool = False, if_match: str | None = None, **extra: Any) -> bool:
        self._record("put", path)
        return super().put(path, data, if_none, if_match, **extra)

    def get(self, path: str) -> StoredObject | None:
        self._record("get", path)
        return super().get(path)

    def read(self, path: str, start: int, length: int) -> bytes | None:
        self._record("read", path)
        return super().read(path, start, length)

    def metadata(self, path: str) -> dict[str, str] | None:
        self._record("metadata", path)
        return super().metadata(path)

    def delete(self, path: str) -> None:
        self._record("delete", path)
        super().delete(path)

    def names(self, folder: str) -> list[str]:
        self._record("names", folder)
        found = super().names(folder)
        self.listed += len(found)
        return found

    def names_after(self, folder: str, after: str, limit: int) -> list[str]:
        self._record("names", folder)
        found = super().names_after(folder, after, limit)
        self.listed += len(found)
        return found

    def _record(self, name: str, path: str) -> None:
        self.before(name, path)
        self.calls.append((name, path))


class DoublePutClient:
    """An S3 client that puts each object twice, as boto3 does after a lost response."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def put_object(self, **arguments: Any) -> Any:
        self._client.put_object(**arguments)
        return self._client.put_object(**arguments)
