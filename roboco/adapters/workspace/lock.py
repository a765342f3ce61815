"""A lock on a file: one writer at a time, in this process and in others."""

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from roboco.errors import TransientError

LOCK_TIMEOUT = 2.0
"""Seconds to wait for a lock. A process that dies releases it. A process that is stopped while it holds the lock does
not, and a sweeper that waited without a limit would hold up all tasks."""
_RETRY_DELAY = 0.002
"""Seconds between two tries."""


@contextmanager
def locked(path: Path) -> Iterator[BinaryIO]:
    """Open or create the file and hold its lock until the block ends. Raise TransientError after a limited wait.

    Closing the file would not release the lock if the pool has forked a process within the block: it has the file, too.
    """
    with path.open("a+b") as file:
        _lock(file, path)
        try:
            yield file
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)


def _lock(file: BinaryIO, path: Path) -> None:
    until = time.monotonic() + LOCK_TIMEOUT
    while True:
        try:
            return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() > until:
                raise TransientError(
                    f"file {path} has been locked by another process for {LOCK_TIMEOUT:g} s; a process that was "
                    "stopped in the middle of a write keeps the lock until it continues or ends"
                ) from error
        time.sleep(_RETRY_DELAY)
