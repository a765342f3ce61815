"""The workspace in memory."""

import hashlib
import threading
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import BinaryIO

from roboco.domain.history.step import TaskStep, parse_step
from roboco.errors import CorruptHistory
from roboco.ports.workspace import FolderPage, StoredFile, VersionedFile

_read = lru_cache(maxsize=4096)(parse_step)


class MemoryFiles:
    """Files by relative path."""

    def __init__(self) -> None:
        self.held: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def create(self, path: str, data: bytes, durable: bool = True) -> bool:
        """Store the file if there is none. Return False if a file with other bytes exists."""
        with self._lock:
            return self.held.setdefault(path, data) == data

    def put(self, path: str, data: bytes) -> None:
        """Store the file, in place of an existing one."""
        self.held[path] = data

    def get(self, path: str) -> bytes | None:
        """Return the file's bytes, or None if there is no file."""
        return self.held.get(path)

    def get_many(self, paths: Sequence[str]) -> list[bytes | None]:
        """Return the bytes of each file, or None where there is none."""
        return [self.get(path) for path in paths]

    def get_versioned(self, path: str) -> VersionedFile | None:
        """Return the file's bytes and their SHA-256, or None if there is no file."""
        data = self.held.get(path)
        return None if data is None else VersionedFile(data, hashlib.sha256(data).hexdigest())

    def replace(self, path: str, data: bytes, version: str | None, durable: bool = True) -> bool:
        """Store the file if it still has this version. Return False if another write changed it."""
        with self._lock:
            stored = self.get_versioned(path)
            if (stored and stored.version) == version:
                self.held[path] = data
            return self.held.get(path) == data

    def put_from(self, path: str, source: BinaryIO) -> None:
        """Store the remaining bytes of the source."""
        self.held[path] = source.read()

    def copy(self, source: str, path: str) -> None:
        """Store the bytes of another file. Do nothing if there is no source."""
        if (data := self.held.get(source)) is not None:
            self.held[path] = data

    def read(self, path: str, start: int, length: int) -> bytes | None:
        """Return at most `length` bytes of the file from `start` on, or None if there is no file."""
        data = self.held.get(path)
        return None if data is None else data[start : start + length]

    def size(self, path: str) -> int | None:
        """Return the file's size in bytes, or None if there is no file."""
        data = self.held.get(path)
        return None if data is None else len(data)

    def presigned_url(self, path: str, seconds: int) -> str | None:
        """Return None: a file in memory has no URL."""
        return None

    def delete(self, path: str) -> None:
        """Remove the file, if it exists."""
        self.held.pop(path, None)

    def names(self, folder: str) -> list[str]:
        """Return the names directly below a folder, sorted."""
        below = [path.removeprefix(folder) for path in list(self.held) if path.startswith(folder)]
        return sorted({path.partition("/")[0] for path in below})

    def names_after(self, folder: str, after: str, limit: int) -> list[str]:
        """Return the first names of files that follow `after`."""
        below = [path.removeprefix(folder) for path in list(self.held) if path.startswith(folder)]
        return sorted(name for name in below if "/" not in name and name > after)[:limit]

    def folders(self, cursor: str, limit: int) -> FolderPage:
        """Return a page of the folders, in the order of their names."""
        found = {path.partition("/")[0] for path in list(self.held) if "/" in path}
        names = tuple(sorted(name for name in found if name > cursor)[:limit])
        return FolderPage(names, names[-1] if len(names) == limit else "")

    def tree(self, folder: str) -> Iterator[StoredFile]:
        """Return the files below a folder."""
        return iter([StoredFile(path, len(data)) for path, data in list(self.held.items()) if path.startswith(folder)])

    def delete_tree(self, folder: str, limit: int) -> int:
        """Remove at most `limit` files below a folder."""
        found = list(islice(self.tree(folder), limit))
        for file in found:
            self.held.pop(file.path, None)
        return len(found)


class MemoryHistories:
    """Histories as lines. `compactions` counts those of each task."""

    def __init__(self) -> None:
        self.held: dict[str, list[bytes]] = {}
        self.compactions: dict[str, int] = {}
        self._lock = threading.Lock()

    def append(self, task_id: str, step: TaskStep) -> TaskStep:
        """Store the sealed step at its position. Return the step at that position: this one, or the one that won."""
        with self._lock:
            lines = self.held.setdefault(task_id, [])
            if step.seq < len(lines):
                return _read(lines[step.seq])
            if step.seq > len(lines):
                raise CorruptHistory(f"task {task_id!r} has {len(lines)} steps, but step {step.seq} was to be added")
            lines.append(step.line().encode())
            return step

    def create(self, task_id: str, lines: Sequence[bytes]) -> bool:
        """Store the lines as the first steps of an empty history. Return False if it has other steps."""
        with self._lock:
            held = self.held.setdefault(task_id, [])
            held.extend([] if held else lines)
            return held[: len(lines)] == list(lines)

    def read(self, task_id: str, start: int = 0) -> Iterator[TaskStep]:
        """Return the committed steps from a position on, each exactly once and in order."""
        return map(_read, self.held.get(task_id, [])[start:])

    def lines(self, task_id: str) -> Iterator[bytes]:
        """Return the stored lines, oldest first."""
        return iter(list(self.held.get(task_id, [])))

    def compact(self, task_id: str) -> bool:
        """Count the call. Histories in memory need no compaction."""
        self.compactions[task_id] = self.compactions.get(task_id, 0) + 1
        return True
