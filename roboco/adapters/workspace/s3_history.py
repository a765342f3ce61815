"""Histories in an S3-compatible store.

A step is one small object below `history/`, created on condition that there is none: that is the commit.
Such segments are folded into `history.jsonl`, whose metadata says how many steps it holds; where a copy lost the
metadata, the newest line says it. A position is
taken if `history.jsonl` holds it or if it has a segment; where both are there, `history.jsonl` counts.
"""

import contextvars
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import takewhile

from roboco.adapters.workspace.s3 import S3Objects, Stored
from roboco.adapters.workspace.tries import tries
from roboco.domain.history.step import TaskStep, read_step
from roboco.domain.paths import history_path, segments_path
from roboco.errors import CorruptHistory, TransientError

_STEPS = "steps"
_NUMBER = re.compile("[0-9]{1,18}")
_END = 256 * 1024
"""How many of the last bytes of a history are fetched first, for its newest steps."""
_ABREAST = 16
"""How many requests run at the same time; the client has 50 connections."""


class S3Histories:
    """The histories below a prefix."""

    def __init__(self, objects: S3Objects) -> None:
        self._objects = objects

    def append(self, task_id: str, step: TaskStep) -> TaskStep:
        """Store the sealed step at its position and return what stands there: ours, or the step that won.

        A segment that was folded and removed must not be written anew: so after the write we look whether
        `history.jsonl` holds the position. A fold that comes later takes our segment along.
        """
        segment = _segment(task_id, step.seq)
        for _ in tries():
            created = self._objects.put(segment, step.line().encode(), if_none=True)
            if self._folded(task_id) > step.seq:
                if created:
                    self._objects.delete(segment)
                return next(self.read(task_id, step.seq))
            if created:
                return step
            stored = self._objects.get(segment)
            if stored is not None:
                return read_step(stored.data)
        raise TransientError(f"step {step.seq} of task {task_id!r} could neither be stored nor read; try again")

    def begin(self, task_id: str, lines: Sequence[bytes]) -> bool:
        """Store the lines as the first steps of a history that has none; False if it has others."""
        if not self._objects.names(segments_path(task_id)) and self._put(task_id, list(lines), None):
            return True
        return self._lines(task_id, 0)[: len(lines)] == list(lines)

    def read(self, task_id: str, start: int = 0) -> Iterator[TaskStep]:
        """The committed steps from a position on, each exactly once and in order."""
        return map(read_step, self._lines(task_id, start))

    def lines(self, task_id: str) -> Iterator[bytes]:
        """The stored lines, oldest first."""
        return iter(self._lines(task_id, 0))

    def fold(self, task_id: str) -> bool:
        """Write `history.jsonl` with the segments' steps, if no other worker did so meanwhile; then remove them."""
        stored = self._objects.get(history_path(task_id))
        names = self._objects.names(segments_path(task_id))
        lines = _split(stored)
        wanted = [name for name in names if _seq(name) >= len(lines)]
        if _lacks_count(task_id, stored, lines) or wanted:
            fresh = self._segments(task_id, wanted)
            if len(fresh) < len(wanted) or [_seq(name) for name in wanted] != _following(len(lines), wanted):
                return False  # another fold is at work, or a segment is missing, which a reader reports
            lines += fresh
            if not self._put(task_id, lines, stored):
                return False
        folded = [segments_path(task_id) + name for name in names if _seq(name) < len(lines)]
        with _abreast() as pool:
            list(pool.map(self._objects.delete, folded))
        return True

    def _put(self, task_id: str, lines: list[bytes], stored: Stored | None) -> bool:
        data = b"".join(line + b"\n" for line in lines)
        etag = stored.etag if stored else None
        metadata = {_STEPS: str(len(lines))}
        return self._objects.put(history_path(task_id), data, if_none=etag is None, if_match=etag, Metadata=metadata)

    def _folded(self, task_id: str) -> int:
        """How many steps `history.jsonl` holds. A copy that lost the metadata is counted by its newest line."""
        metadata = self._objects.metadata(history_path(task_id))
        if metadata is None:
            return 0
        noted = _noted(metadata)
        return self._counted(task_id) if noted is None else noted

    def _counted(self, task_id: str) -> int:
        length = _END
        while True:
            lines, size = self._last_lines(task_id, length)
            if lines or size < length:
                return _count(task_id, lines, size)
            length *= 8

    def _lines(self, task_id: str, start: int) -> list[bytes]:
        """The lines from a position on. Segments are listed first: what a fold removes meanwhile is in the file."""
        for _ in tries():
            names = self._objects.names(segments_path(task_id))
            lines: list[bytes] = []
            if self._folded(task_id) > start:
                lines = self._folded_from(task_id, start)
            wanted = [name for name in names if _seq(name) >= start + len(lines)]
            if [_seq(name) for name in wanted] != _following(start + len(lines), wanted):
                continue
            fresh = self._segments(task_id, wanted)
            if len(fresh) == len(wanted):
                return lines + fresh
        raise CorruptHistory(
            f"task {task_id!r} lacks a step at or after {start}: an object below {segments_path(task_id)} is missing; "
            "restore it, or remove the task's open marker to give the task up"
        )

    def _folded_from(self, task_id: str, start: int) -> list[bytes]:
        """The lines of `history.jsonl` from a position on; of a long one only its end is fetched, if that will do."""
        length = _END
        while start > 0:
            lines, size = self._last_lines(task_id, length)
            first = read_step(lines[0]).seq if lines else 0
            if first <= start and lines:
                return lines[start - first :]
            if size < length:
                return []
            length *= 8
        return _split(self._objects.get(history_path(task_id)))

    def _last_lines(self, task_id: str, length: int) -> tuple[list[bytes], int]:
        """The complete lines of the last `length` bytes of `history.jsonl`, and how many bytes came."""
        data = self._objects.end(history_path(task_id), length) or b""
        lines = data.split(b"\n")[:-1]
        return (lines if len(data) < length else lines[1:]), len(data)  # the first one may be cut

    def _segments(self, task_id: str, names: list[str]) -> list[bytes]:
        """What the segments hold, up to the first one that is gone."""
        paths = [segments_path(task_id) + name for name in names]
        if len(paths) == 1:
            found = [self._objects.get(paths[0])]
        else:
            with _abreast() as pool:
                found = list(pool.map(self._objects.get, paths))
        return [stored.data for stored in takewhile(bool, found) if stored]


def _abreast() -> ThreadPoolExecutor:
    """Threads that know for which work they are, as log lines tell."""
    return ThreadPoolExecutor(_ABREAST, initializer=_adopt, initargs=(contextvars.copy_context(),))


def _adopt(context: contextvars.Context) -> None:
    for variable, value in context.items():
        variable.set(value)


def _segment(task_id: str, seq: int) -> str:
    return f"{segments_path(task_id)}{seq:08d}.json"


def _seq(name: str) -> int:
    return int(name.partition(".")[0])


def _split(stored: Stored | None) -> list[bytes]:
    return stored.data.split(b"\n")[:-1] if stored else []


def _noted(metadata: Mapping[str, str]) -> int | None:
    """The count of steps in the metadata, or None if there is none: a restore or a copy through a file drops it."""
    steps = metadata.get(_STEPS, "")
    return int(steps) if _NUMBER.fullmatch(steps) else None


def _count(task_id: str, lines: list[bytes], size: int) -> int:
    """How many steps a file with these last lines holds; CorruptHistory if its bytes do not say so."""
    try:
        if lines:
            return read_step(lines[-1]).seq + 1
    except CorruptHistory as error:
        raise CorruptHistory(_unreadable(task_id)) from error
    if size:
        raise CorruptHistory(_unreadable(task_id))
    return 0


def _lacks_count(task_id: str, stored: Stored | None, lines: list[bytes]) -> bool:
    """Return True if the file must be written anew, for its metadata; CorruptHistory if it lacks lines."""
    if stored is None or _noted(stored.metadata) is not None:
        return False
    if _count(task_id, lines, len(stored.data)) != len(lines):
        raise CorruptHistory(_unreadable(task_id))
    return bool(lines)


def _unreadable(task_id: str) -> str:
    return (
        f"object {history_path(task_id)!r} of task {task_id!r} has no {_STEPS!r} in its metadata, and its last line "
        "does not say how many steps it holds: restore the object, or remove the task's open marker to give the task up"
    )


def _following(start: int, names: list[str]) -> list[int]:
    return list(range(start, start + len(names)))
