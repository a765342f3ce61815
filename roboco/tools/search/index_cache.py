"""The private folder in which a worker caches its index files, with a limited size.

One process at a time has a file open, under a lock beside it. The number of locks is fixed, so no lock file has to be
removed. Every file can be rebuilt, so a broken one is removed.
"""

import hashlib
import os
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from urllib.parse import quote, unquote

from roboco.errors import TransientError, UsageError
from roboco.tools.search.sqlite_index import SqliteIndex
from roboco.workspace.lock import locked

MAX_CACHE_BYTES = 512 * 1024 * 1024
"""Maximum number of bytes of all files together."""
LOCK_TIMEOUT = 30.0
"""Seconds to wait for a file that another process uses."""
_SETTINGS = ("temp_store = MEMORY", "synchronous = NORMAL", "cache_size = -32000")
_SUFFIX = ".index"
_BROKEN_FILE_CODES = frozenset(
    {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_MISMATCH}
)


def cache_folder() -> Path:
    """Return the folder of this user's workers among the temporary files (TMPDIR)."""
    return Path(tempfile.gettempdir()) / f"roboco-cache-{os.getuid()}"


class IndexCache:
    """Index files by name. If they are too large together, the least recently used ones are removed."""

    def __init__(self, folder: Path, capacity: int = MAX_CACHE_BYTES, lock_timeout: float = LOCK_TIMEOUT) -> None:
        self._folder = folder
        self._capacity = capacity
        self._lock_timeout = lock_timeout

    @contextmanager
    def open(self, *name: str) -> Iterator[SqliteIndex]:
        """Open the file of this name exclusively, and create it if necessary.

        Raises sqlite3.DatabaseError if the file is broken, and TransientError if the file or the folder cannot be used.
        """
        path = self._path(name)
        with self._locked(path):
            size = self._create(path)
            with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as database:
                for setting in _SETTINGS:
                    database.execute(f"PRAGMA {setting}")
                yield SqliteIndex(database)
            self._record_use(path, size)

    def remove(self, *name: str) -> None:
        """Remove the file of this name if it exists."""
        path = self._path(name)
        with self._locked(path), self._translating_errors():
            _remove(path)

    def remove_if(self, is_unwanted: Callable[[str], bool], *first: str) -> int:
        """Remove each file whose name begins with these parts, if its last part is unwanted. Return their number."""
        prefix = _prefix(first)
        with self._translating_errors():
            known = [path.name.removesuffix(_SUFFIX) for path in self._folder.glob(f"*{_SUFFIX}")]
        unwanted = [
            (*first, name)
            for name in (unquote(one.removeprefix(prefix)) for one in known if one.startswith(prefix))
            if is_unwanted(name)
        ]
        for name in unwanted:
            self.remove(*name)
        return len(unwanted)

    def _create(self, path: Path) -> int:
        """Create the file if necessary, readable only by its owner, and return its size."""
        with self._translating_errors():
            os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
            return path.stat().st_size

    def _record_use(self, path: Path, size: int) -> None:
        """Record the use of the file. If its size has changed, remove other files until all fit."""
        now = (
            time.time_ns()
        )  # the kernel's own time of a file moves in steps of milliseconds, in which uses would be equal
        with self._translating_errors():
            os.utime(path, ns=(now, now))
            if path.stat().st_size != size:
                self._make_room(path)

    def _path(self, name: tuple[str, ...]) -> Path:
        with self._translating_errors():
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if (owner := self._folder.stat().st_uid) != os.geteuid():
                raise UsageError(
                    f"folder {self._folder} for memory indexes belongs to user {owner}; use one of your own"
                )
            self._folder.chmod(0o700)
        return self._folder / f"{_prefix(name[:-1])}{quote(name[-1], safe='')}{_SUFFIX}"

    def _make_room(self, ours: Path) -> None:
        """Remove the least recently used files until the rest is small enough, except `ours` and files in use."""
        files = []
        for path in self._folder.glob(f"*{_SUFFIX}"):
            with suppress(FileNotFoundError):
                files.append((path.stat().st_mtime_ns, path.stat().st_size, path))
        total = sum(size for _, size, _ in files)
        for _, size, path in sorted(files):
            if total <= self._capacity:
                return
            if path != ours and self._try_remove(path):
                total -= size

    def _try_remove(self, path: Path) -> bool:
        with suppress(TransientError), locked(_lock_path(path), 0):
            _remove(path)
            return True
        return False

    @contextmanager
    def _locked(self, path: Path) -> Iterator[None]:
        with ExitStack() as held:
            with self._translating_errors():
                held.enter_context(locked(_lock_path(path), self._lock_timeout))
            yield

    @contextmanager
    def _translating_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            reason = error.strerror or str(error)
            raise TransientError(f"folder {self._folder} for memory indexes cannot be used: {reason}") from error


def is_broken_file(error: sqlite3.Error) -> bool:
    """Return True if the error means that the file is broken and must be removed."""
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in _BROKEN_FILE_CODES


def _prefix(first: tuple[str, ...]) -> str:
    """Return the beginning of the names of all files whose names have these first parts."""
    digest = hashlib.sha256("\n".join(first).encode()).hexdigest()
    return f"{digest[:16]}-"


def _remove(path: Path) -> None:
    """Remove the file, then its journal: a journal without its file is harmless, a file without its journal is not."""
    path.unlink(missing_ok=True)
    path.with_name(path.name + "-journal").unlink(missing_ok=True)


def _lock_path(path: Path) -> Path:
    return path.with_name(f"{hashlib.sha256(path.name.encode()).hexdigest()[:2]}.lock")
