"""Histories in an S3-compatible store, with compaction.

A worker commits a step when it creates one small object, a segment, below `history/`, on condition that there is none.
The coordinator compacts segments into `history.jsonl`: it writes the file with the steps of all segments, on condition
that the file has not changed since it was read, and then removes these segments. The metadata of the file contains the
number of its steps; if a copy lost the metadata, the newest line gives the number.

A position is taken if `history.jsonl` contains it or it has a segment. If both exist, `history.jsonl` counts: a segment
is then a rest of a compaction whose worker died before it removed the segment.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice, takewhile

from roboco.domain.history.step import TaskStep, parse_step
from roboco.domain.paths import history_path, segments_path
from roboco.domain.sorted_lines import lines_from
from roboco.errors import CorruptHistory, TransientError
from roboco.workspace.s3 import S3Objects, StoredObject, for_each, tries

_STEPS_KEY = "steps"
_STEPS_PATTERN = re.compile("[0-9]{1,18}")
_TAIL_BYTES = 256 * 1024
"""Bytes at the end of a history that are fetched first, for its newest steps."""
_MIN_PAGE, _MAX_PAGE = 64, 256
"""Segments that a reader fetches at a time; it begins with few, because most readers want the newest steps."""


class S3Histories:
    """The histories below a prefix."""

    def __init__(self, objects: S3Objects) -> None:
        self._objects = objects

    def append(self, task_id: str, step: TaskStep) -> TaskStep:
        """Store the sealed step at its position. Return the stored step: this one, or an earlier one that won.

        A segment that was compacted and removed must not be created again. So this reads, after the write, whether
        `history.jsonl` contains the position. A later compaction includes the new segment.
        """
        segment = f"{segments_path(task_id)}{step.seq:08d}.json"
        for _ in tries():
            created = self._objects.put(segment, step.line().encode(), if_none=True)
            if self._compacted_count(task_id) > step.seq:
                if created:
                    self._objects.delete(segment)
                return next(self.read(task_id, step.seq))
            if created:
                return step
            stored = self._objects.get(segment)
            if stored is not None:
                return parse_step(stored.data)
        raise TransientError(f"step {step.seq} of task {task_id!r} could neither be stored nor read; try again")

    def create(self, task_id: str, lines: Sequence[bytes]) -> bool:
        """Store the lines as the first steps of an empty history. Return False if it begins with other steps."""
        if not self._objects.names(segments_path(task_id)) and self._put_compacted(task_id, list(lines), None):
            return True
        return list(islice(self._lines(task_id, 0), len(lines))) == list(lines)

    def read(self, task_id: str, start: int = 0) -> Iterator[TaskStep]:
        """Return the committed steps from a position on, each exactly once and in order."""
        return map(parse_step, self._lines(task_id, start))

    def lines(self, task_id: str) -> Iterator[bytes]:
        """Return the stored lines, oldest first."""
        return self._lines(task_id, 0)

    def compact(self, task_id: str) -> bool:
        """Compact the segments into `history.jsonl`, unless another worker does so, and remove them.

        Return False if another worker compacts, or if a segment is missing.
        """
        stored = self._objects.get(history_path(task_id))
        names = self._objects.names(segments_path(task_id))
        lines = stored.data.split(b"\n")[:-1] if stored else []
        wanted = [name for name in names if _segment_seq(name) >= len(lines)]
        if _lacks_count(task_id, stored, lines) or wanted:
            fresh = self._segments(task_id, wanted)
            if len(fresh) < len(wanted) or [_segment_seq(name) for name in wanted] != _consecutive(len(lines), wanted):
                return False  # another worker compacts, or a segment is missing, which a reader reports
            lines += fresh
            if not self._put_compacted(task_id, lines, stored):
                return False
        folded = [segments_path(task_id) + name for name in names if _segment_seq(name) < len(lines)]
        for_each(self._objects.delete, folded)
        return True

    def _put_compacted(self, task_id: str, lines: list[bytes], stored: StoredObject | None) -> bool:
        data = b"".join(line + b"\n" for line in lines)
        etag = stored.etag if stored else None
        metadata = {_STEPS_KEY: str(len(lines))}
        return self._objects.put(history_path(task_id), data, if_none=etag is None, if_match=etag, Metadata=metadata)

    def _compacted_count(self, task_id: str) -> int:
        """Return the number of steps in `history.jsonl`. If a copy lost the metadata, count by its newest line."""
        metadata = self._objects.metadata(history_path(task_id))
        if metadata is None:
            return 0
        noted = _steps_in_metadata(metadata)
        return self._count_by_last_line(task_id) if noted is None else noted

    def _count_by_last_line(self, task_id: str) -> int:
        length = _TAIL_BYTES
        while True:
            lines, size = self._last_lines(task_id, length)
            if lines or size < length:
                return _count_by_lines(task_id, lines, size)
            length *= 8

    def _lines(self, task_id: str, start: int) -> Iterator[bytes]:
        """Yield the lines from a position on. Raise CorruptHistory if one is missing.

        It holds a page of segments, or a piece of `history.jsonl`: a reader may be slow, and the history long.
        Cost: for each page LIST, HEAD and a GET for each segment; if the file has `start`, also LIST, HEAD, and some
        GETs to find it. Older segments cost nothing.
        """
        size, is_last = _MIN_PAGE, False
        while not is_last:
            lines, is_last = self._page(task_id, start, size)
            for line in lines:
                yield line
                start += 1
            size = min(2 * size, _MAX_PAGE)

    def _page(self, task_id: str, start: int, size: int) -> tuple[Iterable[bytes], bool]:
        """Return the next lines: all of the file, or of at most `size` segments. Return True if there are no more.

        It lists the segments first: a segment that a compaction removes meanwhile is then in the file.
        """
        for _ in tries():
            names = self._objects.names_after(segments_path(task_id), f"{start:08d}", size)
            if self._compacted_count(task_id) > start:
                lines = self._compacted_lines(task_id, start)
                if (first := next(lines, None)) is not None:
                    return chain([first], lines), False
            elif [_segment_seq(name) for name in names] == _consecutive(start, names):
                fresh = self._segments(task_id, names)
                if len(fresh) == len(names):
                    return fresh, len(names) < size
        raise CorruptHistory(
            f"task {task_id!r} lacks a step at or after {start}: an object below {segments_path(task_id)} is missing; "
            "restore it, or move the task's open marker away to give the task up; its files stay"
        )

    def _compacted_lines(self, task_id: str, start: int) -> Iterator[bytes]:
        """Yield the lines of `history.jsonl` from a position on. A compaction only adds lines, so their places stay."""
        size = 0
        if start > 0:
            lines, _ = self._last_lines(task_id, _TAIL_BYTES)
            first = parse_step(lines[0]).seq if lines else start + 1
            if first <= start:
                return iter(lines[start - first :])
            size = self._objects.size(history_path(task_id)) or 0
        return lines_from(partial(self._part, task_id), size, _seq_of_line, start)

    def _part(self, task_id: str, start: int, length: int) -> bytes:
        return self._objects.read(history_path(task_id), start, length) or b""

    def _last_lines(self, task_id: str, length: int) -> tuple[list[bytes], int]:
        """Return the complete lines in the last `length` bytes of `history.jsonl`, and the number of fetched bytes."""
        data = self._objects.read_last(history_path(task_id), length) or b""
        lines = data.split(b"\n")[:-1]
        return (lines if len(data) < length else lines[1:]), len(data)  # the first line may be incomplete

    def _segments(self, task_id: str, names: list[str]) -> list[bytes]:
        """Return the lines of the segments, up to the first missing one."""
        paths = [segments_path(task_id) + name for name in names]
        return [stored.data for stored in takewhile(bool, for_each(self._objects.get, paths)) if stored]


def _seq_of_line(line: bytes) -> int:
    return parse_step(line).seq


def _segment_seq(name: str) -> int:
    return int(name.partition(".")[0])


def _steps_in_metadata(metadata: Mapping[str, str]) -> int | None:
    """Return the number of steps in the metadata, or None: a restore or a copy through a file drops the metadata."""
    steps = metadata.get(_STEPS_KEY, "")
    return int(steps) if _STEPS_PATTERN.fullmatch(steps) else None


def _count_by_lines(task_id: str, lines: list[bytes], size: int) -> int:
    """Return the number of steps of a file with these last lines. Raise CorruptHistory if the lines do not give it."""
    try:
        if lines:
            return parse_step(lines[-1]).seq + 1
    except CorruptHistory as error:
        raise CorruptHistory(_unreadable(task_id)) from error
    if size:
        raise CorruptHistory(_unreadable(task_id))
    return 0


def _lacks_count(task_id: str, stored: StoredObject | None, lines: list[bytes]) -> bool:
    """Return True if the file must be written again to add its metadata. Raise CorruptHistory if it lacks lines."""
    if stored is None or _steps_in_metadata(stored.metadata) is not None:
        return False
    if _count_by_lines(task_id, lines, len(stored.data)) != len(lines):
        raise CorruptHistory(_unreadable(task_id))
    return bool(lines)


def _unreadable(task_id: str) -> str:
    return (
        f"object {history_path(task_id)!r} of task {task_id!r} has no {_STEPS_KEY!r} in its metadata, and its last "
        "line does not say how many steps it holds: restore the object, or move the task's open marker away to give "
        "the task up; its files stay"
    )


def _consecutive(start: int, names: list[str]) -> list[int]:
    return list(range(start, start + len(names)))
