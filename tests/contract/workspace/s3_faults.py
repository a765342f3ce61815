"""S3 with faults: calls that are counted, come late or never, and answers that get lost."""

import threading
from collections.abc import Callable
from typing import Any

from roboco.adapters.workspace.s3 import S3Objects, StoredObject


class Killed(Exception):
    """The worker died before this call."""


class WatchedObjects(S3Objects):
    """Notes each call; `before` is told its name and path, and may raise."""

    def __init__(self, client: Any, bucket: str, prefix: str) -> None:
        super().__init__(client, bucket, prefix)
        self._place = (client, bucket, prefix)
        self.calls: list[tuple[str, str]] = []
        self.before: Callable[[str, str], None] = lambda name, path: None

    def for_another_worker(self) -> "WatchedObjects":
        """The same objects, watched apart."""
        return WatchedObjects(*self._place)

    def die_before(self, name: str, nth: int = 1) -> None:
        """Raise Killed instead of making the nth call of this name, and any call from then on."""
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
        """Watched."""
        self._note("put", path)
        return super().put(path, data, if_none, if_match, **extra)

    def get(self, path: str) -> StoredObject | None:
        """Watched."""
        self._note("get", path)
        return super().get(path)

    def metadata(self, path: str) -> dict[str, str] | None:
        """Watched."""
        self._note("metadata", path)
        return super().metadata(path)

    def delete(self, path: str) -> None:
        """Watched."""
        self._note("delete", path)
        super().delete(path)

    def names(self, folder: str) -> list[str]:
        """Watched."""
        self._note("names", folder)
        return super().names(folder)

    def _note(self, name: str, path: str) -> None:
        self.before(name, path)
        self.calls.append((name, path))


class DoublePutClient:
    """An S3 client that puts each object twice, as boto3 does when an answer got lost."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def put_object(self, **arguments: Any) -> Any:
        self._client.put_object(**arguments)
        return self._client.put_object(**arguments)
