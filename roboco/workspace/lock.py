"""A lock on a file: one writer at a time, in this process and in others."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from roboco.errors import TransientError

LOCK_TIMEOUT = 2.0
"""Seconds to wait for a lock. A process that dies releases it. A process that is stopped while it holds the lock does
not, and a sweeper that waited without a limit would hold up all tasks."""
_RETRY_DELAY = 0.002
"""Seconds between two tries."""


@contextmanager
def locked(path: Path, seconds: float = LOCK_TIMEOUT) -> Iterator[int]:
    """Open or create the file for appending, and hold its lock until the block ends. Yield its descriptor.

    Raise TransientError if another process holds it for these seconds. Closing the descriptor would not release the
    lock if the pool has forked a process within the block: it has the descriptor, too.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
    try:
        _lock(descriptor, path, seconds)
        try:
            yield descriptor
        finally:
            fcntl.flock(descriptor, fcntl.LOCK_UN)
    finally:
        os.close(descriptor)


def _lock(descriptor: int, path: Path, seconds: float) -> None:
    until = time.monotonic() + seconds
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() > until:
                raise TransientError(
                    f"file {path} has been locked by another process for {seconds:g} s; a process that was "
                    "stopped in the middle of a write keeps the lock until it continues or ends"
                ) from error
        time.sleep(_RETRY_DELAY)
