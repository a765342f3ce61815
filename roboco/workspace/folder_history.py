"""Histories in a folder: one `history.jsonl` for each task. Workers append to it under a lock; it is always complete.

A reader sees a line before its writer has made it durable. So a reader makes all lines durable before it returns them:
no worker acts on a step that a power failure removes, and no reader waits for a lock.

An append after one by the same process takes eight system calls, and one by another process two more. At each of them
the thread gives up the interpreter's lock, and under load it then waits for it. Python's file objects would make three
times as many.

A reader holds no lock, so the file may become shorter at any moment: a writer removes the rest of an interrupted write.
"""

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import BinaryIO, NamedTuple

from roboco.domain.history.step import TaskStep, parse_step
from roboco.domain.paths import history_path
from roboco.domain.sorted_lines import lines_from
from roboco.errors import CorruptHistory, TransientError
from roboco.workspace.folder import FolderFiles, with_remedy
from roboco.workspace.lock import locked

_BLOCK_BYTES = 64 * 1024
_MAX_BACKWARD = 256
"""Steps at the end of a history that a reader holds at a time."""
_READ_ONLY_ERRNOS = frozenset({errno.EROFS, errno.EINVAL})
"""Errors of a read-only file system: it has no data that must become durable."""
_MAX_REMEMBERED_HISTORIES = 1_000
"""Histories that an object remembers as durable; each needs about 500 bytes."""


class _Version(NamedTuple):
    """The facts that distinguish the versions of a file. No program can set the time of the last change."""

    inode: int
    size: int
    changed_ns: int


class _DurableHistory(NamedTuple):
    """A version of a file that is durable. `steps` is the number of its lines if its last change was an append here."""

    version: _Version
    steps: int | None = None


class FolderHistories:
    """The histories below a folder. A line without a newline is the rest of an interrupted write, and no step."""

    def __init__(self, files: FolderFiles) -> None:
        self._files = files
        self._durable: dict[str, _DurableHistory] = {}

    def append(self, task_id: str, step: TaskStep) -> TaskStep:
        """Store the sealed step at its position. Return the stored step: this one, or an earlier one that won.

        Raise CorruptHistory if the history lacks steps before that position.
        """
        with self._locked(task_id) as descriptor:
            version = _version(descriptor)
            end, count = self._end(task_id, descriptor, version)
            if step.seq < count:
                return self._stored(task_id, step.seq)
            if step.seq > count:
                raise CorruptHistory(
                    f"task {task_id!r} has {count} steps in its workspace, but step {step.seq} was to be added: "
                    "the workspace has lost steps; restore it, or move the task's open marker away to give it up; its "
                    "files stay"
                )
            _write(descriptor, version.size, end, step.line().encode() + b"\n")
            self._remember(task_id, _DurableHistory(_version(descriptor), count + 1))
        return step

    def create(self, task_id: str, lines: Sequence[bytes]) -> bool:
        """Store the lines as the first steps of an empty history. Return False if it begins with other steps."""
        data = b"".join(line + b"\n" for line in lines)
        with self._locked(task_id) as descriptor:
            size = os.fstat(descriptor).st_size
            if _complete_size(descriptor, size) == 0:
                _write(descriptor, size, 0, data)
                return True
            self._make_durable(task_id, descriptor)
            return _read_at(descriptor, 0, len(data)) == data

    def read(self, task_id: str, start: int = 0) -> Iterator[TaskStep]:
        """Return the committed steps from a position on, each exactly once and in order."""
        if start == 0:
            return map(parse_step, self.lines(task_id))
        return self._read_from(task_id, start)

    def lines(self, task_id: str) -> Iterator[bytes]:
        """Yield the stored lines, oldest first."""
        try:
            with self._open_complete(task_id) as (file, left):
                while left > 0 and (line := file.readline(left)):
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
                descriptor = file.fileno()
                newest = next(_lines_backwards(descriptor, end), None)
                wanted = 0 if newest is None else parse_step(newest).seq + 1 - start
                if wanted > _MAX_BACKWARD:
                    part = partial(_part, descriptor, end)
                    yield from map(parse_step, lines_from(part, end, _seq_of_line, start))
                    return
                lines = list(islice(_lines_backwards(descriptor, end), max(0, wanted)))
            yield from map(parse_step, reversed(lines))
        except FileNotFoundError:
            return

    @contextmanager
    def _locked(self, task_id: str) -> Iterator[int]:
        """Yield the descriptor of the history's file, which is created if it is missing, and hold its lock."""
        path = self._files.path_of(history_path(task_id))
        try:
            with ExitStack() as exits:
                try:
                    descriptor = exits.enter_context(locked(path))
                except FileNotFoundError:  # a task's first step creates its folder
                    path.parent.mkdir(parents=True, exist_ok=True)
                    descriptor = exits.enter_context(locked(path))
                yield descriptor
        except OSError as error:
            raise _unavailable("written", path, error) from error

    @contextmanager
    def _open_complete(self, task_id: str) -> Iterator[tuple[BinaryIO, int]]:
        """Yield the file and the size of its complete lines, all durable. Raise FileNotFoundError without a history."""
        path = self._files.path_of(history_path(task_id))
        try:
            with path.open("rb") as file:
                descriptor = file.fileno()
                if end := _complete_size(descriptor, os.fstat(descriptor).st_size):
                    self._make_durable(task_id, descriptor)
                yield file, end
        except FileNotFoundError:
            raise
        except OSError as error:
            raise _unavailable("read", path, error) from error

    def _stored(self, task_id: str, seq: int) -> TaskStep:
        """Return the step at a position that is taken."""
        stored = next(self.read(task_id, seq), None)
        if stored is None:
            self._durable.pop(task_id, None)
            raise TransientError(f"the history of task {task_id!r} was replaced while a step was added; try again")
        return stored

    def _end(self, task_id: str, descriptor: int, version: _Version) -> tuple[int, int]:
        """Return the size of the complete lines, and their number. A file whose last append was here is not read."""
        known = self._durable.get(task_id)
        if known is not None and known.steps is not None and known.version == version:
            return version.size, known.steps
        end = _complete_size(descriptor, version.size)
        newest = next(_lines_backwards(descriptor, end), None)
        return end, 0 if newest is None else parse_step(newest).seq + 1

    def _make_durable(self, task_id: str, descriptor: int) -> None:
        """Make the content of the file durable: its writer may be about to do so, or may have died.

        A process does this once for each version of a file, because even without changes it flushes the disk.
        """
        version = _version(descriptor)
        known = self._durable.get(task_id)
        if known is not None and known.version == version:
            return
        try:
            os.fsync(descriptor)
        except OSError as error:
            if error.errno not in _READ_ONLY_ERRNOS:
                raise
        self._remember(task_id, _DurableHistory(version))

    def _remember(self, task_id: str, durable: _DurableHistory) -> None:
        if len(self._durable) >= _MAX_REMEMBERED_HISTORIES:
            self._durable.clear()
        self._durable[task_id] = durable


def _unavailable(verb: str, path: Path, error: OSError) -> TransientError:
    return TransientError(f"history {path} cannot be {verb}: {with_remedy(error)}")


def _write(descriptor: int, size: int, end: int, data: bytes) -> None:
    """Write the data after `end`, in place of an interrupted write, and make it durable. Take it back on an error."""
    try:
        if size > end:
            os.ftruncate(descriptor, end)
        left = memoryview(data)
        while left:
            left = left[os.write(descriptor, left) :]
        os.fsync(descriptor)
    except OSError:
        os.ftruncate(descriptor, end)
        raise


def _version(descriptor: int) -> _Version:
    found = os.fstat(descriptor)
    return _Version(found.st_ino, found.st_size, found.st_ctime_ns)


def _read_at(descriptor: int, start: int, length: int) -> bytes:
    """Return these bytes of the file, or fewer at its end."""
    parts = list[bytes]()
    while length > 0 and (part := os.pread(descriptor, length, start)):
        parts.append(part)
        start, length = start + len(part), length - len(part)
    return b"".join(parts)


def _part(descriptor: int, end: int, start: int, length: int) -> bytes:
    return _read_at(descriptor, start, min(length, end - start))


def _seq_of_line(line: bytes) -> int:
    return parse_step(line).seq


def _complete_size(descriptor: int, size: int) -> int:
    """Return the place after the last newline. Text after it is no step yet, and may be removed at any moment."""
    position = size
    while position > 0:
        start = max(0, position - _BLOCK_BYTES)
        found = _read_at(descriptor, start, position - start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        position = start
    return 0


def _lines_backwards(descriptor: int, end: int) -> Iterator[bytes]:
    """Yield the lines before `end`, newest first. Only the requested lines are read."""
    position = end
    rest = list[bytes]()  # of the line whose beginning is not read yet, its last part first
    while position > 0:
        start = max(0, position - _BLOCK_BYTES)
        first, *pieces = _read_at(descriptor, start, position - start).split(b"\n")
        position = start
        if pieces:
            rest.append(pieces.pop())
            yield from filter(None, (b"".join(reversed(rest)), *reversed(pieces)))
            rest = []
        rest.append(first)
    if line := b"".join(reversed(rest)):
        yield line
