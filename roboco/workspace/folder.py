"""Files of the workspace in a folder."""

import errno
import hashlib
import os
import shutil
import stat
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from heapq import nsmallest
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from roboco.errors import TransientError
from roboco.ports.workspace import FolderPage, StoredFile, VersionedFile
from roboco.workspace.lock import locked
from roboco.workspace.path import checked_path

_LOCK_FILES = 64
"""Lock files of a folder in which files are replaced: hidden, empty files that stay.

A process that is stopped while it holds a lock blocks only the files that share the lock.
"""

_READ_BYTES = 1024 * 1024
"""Bytes that are read at once of a file that grows while it is read."""
_NO_FILE_ERRORS = (FileNotFoundError, IsADirectoryError)
"""Errors of a path that is no file: it does not exist, or is a folder."""


class FolderFiles:
    """Files below a folder. Each is written under a temporary name, synced, and then moved or linked into its place.

    After that the folder is synced, unless the write need not be durable: then its next sync makes the name durable.
    A missing root is created for its user only; an existing one keeps its mode.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def create(self, path: str, data: bytes, durable: bool = True) -> bool:
        """Store the file if there is none. Return False if another file exists."""
        target = self._name_of(path)
        with self._translating_errors():
            written = self._write_temporary(target, data)
            try:
                os.link(written, target)
            except FileExistsError:
                if self.get(path) != data:
                    return False
            finally:
                os.unlink(written)
            if durable:
                _sync_folder(os.path.dirname(target))
        return True

    def put(self, path: str, data: bytes) -> None:
        """Store the file, in place of an older one."""
        self._put(self._name_of(path), data)

    def _put(self, target: str, data: bytes | BinaryIO, durable: bool = True) -> None:
        with self._translating_errors():
            os.replace(self._write_temporary(target, data), target)
            if durable:
                _sync_folder(os.path.dirname(target))

    def get(self, path: str) -> bytes | None:
        """Return the file's bytes, or None if there is none."""
        with self._translating_errors():
            try:
                return _read_file(self._name_of(path))
            except _NO_FILE_ERRORS:
                return None

    def get_many(self, paths: Sequence[str]) -> list[bytes | None]:
        """Return the bytes of each file, or None where there is none."""
        return [self.get(path) for path in paths]

    def get_versioned(self, path: str) -> VersionedFile | None:
        """Return the file's bytes and their SHA-256 as version, or None if there is none."""
        data = self.get(path)
        return None if data is None else VersionedFile(data, hashlib.sha256(data).hexdigest())

    def replace(self, path: str, data: bytes, version: str | None, durable: bool = True) -> bool:
        """Store the file if it still has this version. Return False if another write won.

        Writers of one folder take turns; readers never wait.
        """
        if version is None:
            return self.create(path, data, durable)
        target = self._name_of(path)
        folder, name = os.path.split(target)
        with self._translating_errors():
            if not _is_folder(folder):
                return False
            number = int(hashlib.sha256(name.encode()).hexdigest()[:8], 16) % _LOCK_FILES
            with locked(Path(folder, f".lock-{number:02d}")):
                stored = self.get_versioned(path)
                if stored is not None and stored.data == data:
                    if durable:
                        _sync_folder(folder)  # its writer may have died before this
                    return True
                if stored is None or stored.version != version:
                    return False
                self._put(target, data, durable)
        return True

    def put_from(self, path: str, source: BinaryIO) -> None:
        """Store the rest of the source, in place of an older file."""
        self._put(self._name_of(path), source)

    def copy(self, source: str, path: str) -> None:
        """Store the bytes of another file, in place of an older one. Do nothing if there is no source."""
        with self._translating_errors():
            try:
                with self.path_of(source).open("rb") as file:
                    self.put_from(path, file)
            except _NO_FILE_ERRORS:
                return

    def read(self, path: str, start: int, length: int) -> bytes | None:
        """Return at most `length` bytes of the file from `start` on, or None if there is no file."""
        with self._translating_errors():
            try:
                with self.path_of(path).open("rb") as file:
                    file.seek(start)
                    return file.read(length)
            except _NO_FILE_ERRORS:
                return None

    def size(self, path: str) -> int | None:
        """Return the size of the file in bytes, or None if there is none."""
        with self._translating_errors():
            try:
                found = self.path_of(path).stat()
            except _NO_FILE_ERRORS:
                return None
        return found.st_size if stat.S_ISREG(found.st_mode) else None

    def presigned_url(self, path: str, seconds: int) -> str | None:
        """Return None: a folder has no URL for other readers."""
        return None

    def delete(self, path: str) -> None:
        """Remove the file, if it exists."""
        target = self.path_of(path)
        with self._translating_errors():
            if not target.is_dir():
                target.unlink(missing_ok=True)

    def names(self, folder: str) -> list[str]:
        """Return the names directly below a folder, sorted."""
        with self._translating_errors():
            try:
                return sorted(
                    entry.name for entry in os.scandir(self.path_of(folder)) if not entry.name.startswith(".")
                )
            except FileNotFoundError:
                return []

    def names_after(self, folder: str, after: str, limit: int) -> list[str]:
        """Return the first names of files that follow `after`. Cost: O(files of the folder)."""
        with self._translating_errors():
            try:
                with os.scandir(self.path_of(folder)) as entries:
                    later = (one for one in entries if one.name > after and not one.name.startswith("."))
                    return nsmallest(limit, (one.name for one in later if one.is_file()))
            except FileNotFoundError:
                return []

    def folders(self, cursor: str, limit: int) -> FolderPage:
        """Return a page of the folders, in the order of their names. The cursor is the last name."""
        with self._translating_errors():
            try:
                with os.scandir(self._root) as entries:
                    later = (one for one in entries if one.name > cursor and not one.name.startswith("."))
                    names = nsmallest(limit, (one.name for one in later if one.is_dir()))
            except FileNotFoundError:
                names = []
        return FolderPage(tuple(names), names[-1] if len(names) == limit else "")

    def tree(self, folder: str) -> Iterator[StoredFile]:
        """Yield the files below a folder. Temporary files and locks, whose names begin with ".", are left out."""
        with self._translating_errors():
            for path in _files_below(self.path_of(folder)):
                relative = path.relative_to(self._root).as_posix()
                size = None if path.name.startswith(".") else self.size(relative)
                if size is not None:
                    yield StoredFile(relative, size)

    def delete_tree(self, folder: str, limit: int) -> int:
        """Remove at most `limit` files below a folder, also hidden ones, and its empty folders."""
        top = self.path_of(folder)
        with self._translating_errors():
            found = list(islice(_files_below(top), limit))
            for path in found:
                path.unlink(missing_ok=True)
            for parent, _, _ in os.walk(top, topdown=False):
                with suppress(OSError):  # it is not empty: a file was stored meanwhile
                    Path(parent).rmdir()
            if found and top.parent.is_dir():
                _sync_folder(str(top.parent))
        return len(found)

    def path_of(self, path: str) -> Path:
        """Return the absolute path of a relative one. Raise ValueError if it leaves the workspace."""
        return self._root / checked_path(path)

    def _name_of(self, path: str) -> str:
        """Return the same as `path_of` as text. Pathlib takes several times as long, and a task has dozens of these."""
        return f"{self._root}/{checked_path(path)}"

    def _write_temporary(self, target: str, data: bytes | BinaryIO) -> str:
        folder = os.path.dirname(target)
        written = f"{folder}/.{uuid.uuid4().hex}"
        try:
            with self._create_new(written, folder) as file:
                if isinstance(data, bytes):
                    file.write(data)
                else:
                    shutil.copyfileobj(data, file, 1024 * 1024)
                file.flush()
                if data:  # an empty file has its name alone, which a sync of the folder makes durable
                    os.fsync(file.fileno())
        except BaseException:  # of the disk, or of the source
            with suppress(FileNotFoundError):
                os.unlink(written)
            raise
        return written

    def _create_new(self, name: str, folder: str) -> BinaryIO:
        """Open a file that does not exist yet, for writing. Create its folder if that is missing."""
        with suppress(FileNotFoundError):
            return open(name, "xb")
        if not self._root.exists():
            self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.makedirs(folder, exist_ok=True)
        return open(name, "xb")

    @contextmanager
    def _translating_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise TransientError(f"workspace {self._root} cannot be used: {with_remedy(error)}") from error


def _files_below(folder: Path) -> Iterator[Path]:
    """Yield everything below a folder that is no folder. Links are not followed."""
    for parent, folders, names in os.walk(folder):
        linked = (name for name in folders if Path(parent, name).is_symlink())
        yield from (Path(parent, name) for name in (*names, *linked))


def _read_file(name: str) -> bytes:
    """Return the bytes of the file, with half of the system calls of Python's file objects."""
    descriptor = os.open(name, os.O_RDONLY)
    try:
        data = os.read(descriptor, os.fstat(descriptor).st_size + 1)
        while more := os.read(descriptor, _READ_BYTES):
            data += more
        return data
    finally:
        os.close(descriptor)


def _is_folder(name: str) -> bool:
    """Return True if this is a folder. Other than `os.path.isdir`, raise the errors of a disk that does not answer."""
    try:
        return stat.S_ISDIR(os.stat(name).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


_DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_NO_PERMISSION = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


def with_remedy(error: OSError) -> str:
    """Return the error with a remedy for the operator."""
    if error.errno in _DISK_FULL:
        return f"{error}; make room there: workers repeat the write"
    if error.errno in _NO_PERMISSION:
        return f"{error}; give the user of the workers write access there: workers repeat the write"
    return f"{error}; check ROBOCO_WORKSPACE"


def _sync_folder(folder: str) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
