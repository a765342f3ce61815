"""S3 in memory: objects with conditional writes, a record of the requests, and a count of the bytes written."""

import hashlib
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any, BinaryIO

from roboco.ports.workspace import FolderPage, StoredFile
from roboco.workspace.s3 import S3Files, S3Objects, StoredObject


class MemoryObjects(S3Objects):
    """Objects by path. `written` sums the bytes of all puts by the last part of the path.

    `requests` holds the method and the path of each request, a listing of S3 as LIST.
    """

    def __init__(self) -> None:
        super().__init__(None, "memory")
        self.held: dict[str, bytes] = {}
        self.written: Counter[str] = Counter()
        self.requests: list[tuple[str, str]] = []
        self._metadata: dict[str, dict[str, str]] = {}
        self._lock = threading.Lock()

    def put(self, path: str, data: bytes, if_none: bool = False, if_match: str | None = None, **extra: Any) -> bool:
        self.requests.append(("PUT", path))
        with self._lock:
            there = self.held.get(path)
            if (if_none and there is not None) or (if_match and (there is None or _etag(there) != if_match)):
                return False
            self.held[path] = data
            self._metadata[path] = dict(extra.get("Metadata", {}))
            self.written[path.rpartition("/")[2]] += len(data)
            return True

    def get(self, path: str) -> StoredObject | None:
        self.requests.append(("GET", path))
        data = self.held.get(path)
        return None if data is None else StoredObject(data, _etag(data), self._metadata.get(path, {}))

    def put_from(self, path: str, source: BinaryIO, **extra: Any) -> None:
        self.put(path, source.read(), **extra)

    def copy(self, source: str, path: str) -> None:
        if (data := self.held.get(source)) is not None:
            self.put(path, data)

    def read(self, path: str, start: int, length: int) -> bytes | None:
        self.requests.append(("GET", path))
        data = self.held.get(path)
        return None if data is None else data[start : start + length]

    def read_last(self, path: str, length: int) -> bytes | None:
        self.requests.append(("GET", path))
        data = self.held.get(path)
        return None if data is None else data[-length:]

    def size(self, path: str) -> int | None:
        self.requests.append(("HEAD", path))
        data = self.held.get(path)
        return None if data is None else len(data)

    def metadata(self, path: str) -> dict[str, str] | None:
        self.requests.append(("HEAD", path))
        return self._metadata.get(path)

    def delete(self, path: str) -> None:
        self.requests.append(("DELETE", path))
        self.held.pop(path, None)
        self._metadata.pop(path, None)

    def names(self, folder: str) -> list[str]:
        self.requests.append(("LIST", folder))
        below = [path.removeprefix(folder) for path in list(self.held) if path.startswith(folder)]
        return sorted({path.partition("/")[0] for path in below})

    def names_after(self, folder: str, after: str, limit: int) -> list[str]:
        self.requests.append(("LIST", folder))
        below = [path.removeprefix(folder) for path in list(self.held) if path.startswith(folder)]
        return sorted(name for name in below if "/" not in name and name > after)[:limit]

    def tree(self, folder: str) -> Iterator[StoredFile]:
        self.requests.append(("LIST", folder))
        return iter([StoredFile(path, len(data)) for path, data in list(self.held.items()) if path.startswith(folder)])

    def folders(self, cursor: str, limit: int) -> FolderPage:
        self.requests.append(("LIST", ""))
        found = {path.partition("/")[0] for path in list(self.held) if "/" in path}
        names = tuple(sorted(name for name in found if name > cursor)[:limit])
        return FolderPage(names, names[-1] if len(names) == limit else "")


class ObjectFiles(S3Files):
    """S3 files over objects in memory. `held` maps paths to bytes, as in `MemoryFiles`."""

    def __init__(self, objects: MemoryObjects) -> None:
        super().__init__(objects)
        self.held = objects.held


def _etag(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()
