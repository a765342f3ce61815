"""Histories in a folder: one `history.jsonl` for each task. Workers append to it under a lock; it is always complete.

A reader sees a line before its writer has made it durable. So a reader makes all lines durable before it returns them:
no worker acts on a step that a power failure removes, and no reader waits for a lock.
"""

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from typing import BinaryIO

from roboco.adapters.workspace.folder import FolderFiles, with_remedy
from roboco.adapters.workspace.lock import locked
from roboco.domain.history.step import TaskStep, parse_step
from roboco.domain.paths import history_path
from roboco.domain.sorted_lines import lines_from
from roboco.errors import CorruptHistory, TransientError

_BLOCK_BYTES = 64 * 1024
_MAX_BACKWARD = 256
"""Steps at the end of a history that a reader holds at a time."""
_READ_ONLY_ERRNOS = frozenset({errno.EROFS, errno.EINVAL})
"""Errors of a read-only file system: it has no data that must become durable."""
_MAX_REMEMBERED_HISTORIES = 10_000
"""Histories that a process remembers as durable; each needs about 400 bytes."""


class FolderHistories:
    """The histories below a folder. A line without a newline is the rest of an interrupted write, and no step."""

    def __init__(self, files: FolderFiles) -> None:
        self._files = files
        self._durable: dict[str, tuple[int, int, int]] = {}

    def append(self, task_id: str, step: TaskStep) -> TaskStep:
        """Store the sealed step at its position. Return the stored step: this one, or an earlier one that won.

        Raise CorruptHistory if the history lacks steps before that position.
        """
        path = self._files.path_of(history_path(task_id))
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with locked(path) as file:
                end = _complete_size(file)
                newest = _newest(file, end)
                count = newest.seq + 1 if newest else 0
                if step.seq < count:
                    return next(self.read(task_id, step.seq))
                if step.seq > count:
                    raise CorruptHistory(
                        f"task {task_id!r} has {count} steps in its workspace, but step {step.seq} was to be added: "
                        "the workspace has lost steps; restore it, or remove the task's open marker to give it up"
                    )
                _write_line(file, end, step.line().encode() + b"\n")
                self._remember(task_id, _version(file))
        except OSError as error:
            raise TransientError(f"history {path} cannot be written: {with_remedy(error)}") from error
        return step

    def create(self, task_id: str, lines: Sequence[bytes]) -> bool:
        """Store the lines as the first steps of an empty history. Return False if it begins with other steps."""
        data = b"".join(line + b"\n" for line in lines)
        path = self._files.path_of(history_path(task_id))
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with locked(path) as file:
                if _complete_size(file) == 0:
                    _write_line(file, 0, data)
                    return True
                self._make_durable(task_id, file)
                file.seek(0)
                return file.read(len(data)) == data
        except OSError as error:
            raise TransientError(f"history {path} cannot be written: {with_remedy(error)}") from error

    def read(self, task_id: str, start: int = 0) -> Iterator[TaskStep]:
        """Return the committed steps from a position on, each exactly once and in order."""
        if start == 0:
            return map(parse_step, self.lines(task_id))
        return self._read_from(task_id, start)

    def lines(self, task_id: str) -> Iterator[bytes]:
        """Yield the stored lines, oldest first."""
        try:
            with self._open_complete(task_id) as (file, left):
                file.seek(0)
                while left > 0:
                    line = file.readline(left)
                    left -= len(line)
                    yield line[:-1]
        except FileNotFoundError:
            return

    def compact(self, task_id: str) -> bool:
        """Return True: the file always contains every step."""
        return True

    def _read_from(self, task_id: str, start: int) -> Iterator[TaskStep]:
        """Yield the steps from a position on: a few by reading backwards, more by a search for the first one."""
        try:
            with self._open_complete(task_id) as (file, end):
                newest = _newest(file, end)
                wanted = newest.seq + 1 - start if newest else 0
                if wanted > _MAX_BACKWARD:
                    yield from map(parse_step, lines_from(partial(_part, file, end), end, _seq_of_line, start))
                    return
                lines = list(islice(_lines_backwards(file, end), max(0, wanted)))
            yield from map(parse_step, reversed(lines))
        except FileNotFoundError:
            return

    @contextmanager
    def _open_complete(self, task_id: str) -> Iterator[tuple[BinaryIO, int]]:
        """Yield the file and the size of its complete lines, all durable. Raise FileNotFoundError without a history."""
        path = self._files.path_of(history_path(task_id))
        try:
            with path.open("rb") as file:
                if end := _complete_size(file):
                    self._make_durable(task_id, file)
                yield file, end
        except FileNotFoundError:
            raise
        except OSError as error:
            raise TransientError(f"history {path} cannot be read: {with_remedy(error)}") from error

    def _make_durable(self, task_id: str, file: BinaryIO) -> None:
        """Make the content of the file durable: its writer may be about to do so, or may have died.

        A process does this once for each version of a file, because even without changes it flushes the disk.
        """
        version = _version(file)
        if self._durable.get(task_id) == version:
            return
        try:
            os.fsync(file.fileno())
        except OSError as error:
            if error.errno not in _READ_ONLY_ERRNOS:
                raise
        self._remember(task_id, version)

    def _remember(self, task_id: str, version: tuple[int, int, int]) -> None:
        if len(self._durable) >= _MAX_REMEMBERED_HISTORIES:
            self._durable.clear()
        self._durable[task_id] = version


def _write_line(file: BinaryIO, end: int, line: bytes) -> None:
    try:
        file.truncate(end)
        file.write(line)
        file.flush()
        os.fsync(file.fileno())
    except OSError:
        file.truncate(end)
        raise


def _version(file: BinaryIO) -> tuple[int, int, int]:
    """Return inode, size and time of change, which differ between versions: each append makes the file longer."""
    found = os.fstat(file.fileno())
    return found.st_ino, found.st_size, found.st_mtime_ns


def _part(file: BinaryIO, end: int, start: int, length: int) -> bytes:
    file.seek(start)
    return file.read(max(0, min(length, end - start)))


def _seq_of_line(line: bytes) -> int:
    return parse_step(line).seq


def _newest(file: BinaryIO, end: int) -> TaskStep | None:
    line = next(_lines_backwards(file, end), None)
    return None if line is None else parse_step(line)


def _complete_size(file: BinaryIO) -> int:
    """Return the size up to the last newline. Lines before it never change; text after it is no step yet."""
    position = file.seek(0, os.SEEK_END)
    while position > 0:
        start = max(0, position - _BLOCK_BYTES)
        file.seek(start)
        found = file.read(position - start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        position = start
    return 0


def _lines_backwards(file: BinaryIO, end: int) -> Iterator[bytes]:
    """Yield the lines before `end`, newest first. Only the requested lines are read."""
    position = end
    rest = b""
    while position > 0:
        start = max(0, position - _BLOCK_BYTES)
        file.seek(start)
        lines = (file.read(position - start) + rest).split(b"\n")
        rest = lines[0]
        yield from (line for line in reversed(lines[1:]) if line)
        position = start
    if rest:
        yield rest
