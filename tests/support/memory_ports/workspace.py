"""The workspace in memory."""

import hashlib
import threading
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import BinaryIO

from roboco.domain.history.step import TaskStep, parse_step
from roboco.errors import CorruptHistory
from roboco.ports.histories import Histories
from roboco.ports.workspace import Files, FolderPage, StoredFile, VersionedFile

_read = lru_cache(maxsize=4096)(parse_step)


class MemoryFiles(Files):
    """Files by relative path."""

    def __init__(self) -> None:
        self.held: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def create(self, path: str, data: bytes, durable: bool = True) -> bool:
        with self._lock:
            return self.held.setdefault(path, data) == data

    def put(self, path: str, data: bytes) -> None:
        self.held[path] = data

    def get(self, path: str) -> bytes | None:
        return self.held.get(path)

    def get_many(self, paths: Sequence[str]) -> list[bytes | None]:
        return [self.get(path) for path in paths]

    def get_versioned(self, path: str) -> VersionedFile | None:
        data = self.held.get(path)
        return None if data is None else VersionedFile(data, hashlib.sha256(data).hexdigest())

    def replace(self, path: str, data: bytes, version: str | None, durable: bool = True) -> bool:
        with self._lock:
            stored = self.get_versioned(path)
            if (stored and stored.version) == version:
                self.held[path] = data
            return self.held.get(path) == data

    def put_from(self, path: str, source: BinaryIO) -> None:
        self.held[path] = source.read()

    def copy(self, source: str, path: str) -> None:
        if (data := self.held.get(source)) is not None:
            self.held[path] = data

    def read(self, path: str, start: int, length: int) -> bytes | None:
        data = self.held.get(path)
        return None if data is None else data[start : start + length]

    def size(self, path: str) -> int | None:
        data = self.held.get(path)
        return None if data is None else len(data)

    def presigned_url(self, path: str, seconds: int) -> str | None:
        return None

    def delete(self, path: str) -> None:
        self.held.pop(path, None)

    def names(self, folder: str) -> list[str]:
        below = [path.removeprefix(folder) for path in list(self.held) if path.startswith(folder)]
        return sorted({path.partition("/")[0] for path in below})

    def names_after(self, folder: str, after: str, limit: int) -> list[str]:
        below = [path.removeprefix(folder) for path in list(self.held) if path.startswith(folder)]
        return sorted(name for name in below if "/" not in name and name > after)[:limit]

    def folders(self, cursor: str, limit: int) -> FolderPage:
        found = {path.partition("/")[0] for path in list(self.held) if "/" in path}
        names = tuple(sorted(name for name in found if name > cursor)[:limit])
        return FolderPage(names, names[-1] if len(names) == limit else "")

    def tree(self, folder: str) -> Iterator[StoredFile]:
        return iter([StoredFile(path, len(data)) for path, data in list(self.held.items()) if path.startswith(folder)])

    def delete_tree(self, folder: str, limit: int) -> int:
        found = list(islice(self.tree(folder), limit))
        for file in found:
            self.held.pop(file.path, None)
        return len(found)


class MemoryHistories(Histories):
    """Histories as lines. `compactions` counts those of each task."""

    def __init__(self) -> None:
        self.held: dict[str, list[bytes]] = {}
        self.compactions: dict[str, int] = {}
        self._lock = threading.Lock()

    def append(self, task_id: str, step: TaskStep) -> TaskStep:
        with self._lock:
            lines = self.held.setdefault(task_id, [])
            if step.seq < len(lines):
                return _read(lines[step.seq])
            if step.seq > len(lines):
                raise CorruptHistory(f"task {task_id!r} has {len(lines)} steps, but step {step.seq} was to be added")
            lines.append(step.line().encode())
            return step

    def create(self, task_id: str, lines: Sequence[bytes]) -> bool:
        with self._lock:
            held = self.held.setdefault(task_id, [])
            held.extend([] if held else lines)
            return held[: len(lines)] == list(lines)

    def read(self, task_id: str, start: int = 0) -> Iterator[TaskStep]:
        return map(_read, self.held.get(task_id, [])[start:])

    def lines(self, task_id: str) -> Iterator[bytes]:
        return iter(list(self.held.get(task_id, [])))

    def compact(self, task_id: str) -> bool:
        self.compactions[task_id] = self.compactions.get(task_id, 0) + 1
        return True
