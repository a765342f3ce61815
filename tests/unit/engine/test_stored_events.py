"""Archived events are read without a gap, also while a coordinator merges the segments."""

import json
from collections.abc import Callable

import pytest

from roboco.domain import sorted_lines
from roboco.domain.paths import event_segment_path, events_path
from roboco.engine.workspace_records import StoredEvents
from roboco.errors import CorruptHistory
from tests.support.memory_ports.workspace import MemoryFiles, MemoryHistories

TASK = "task_1"
OLD, NEW = "000000000001", "000000000002"


def lines(generation: str, first: int, last: int) -> bytes:
    """Return the lines of the events with these numbers."""
    records = ({"seq": number, "generation": generation, "type": "event_status"} for number in range(first, last + 1))
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


class MeddlingFiles(MemoryFiles):
    """Files that another worker changes before the n-th read."""

    def __init__(self, at: int, meddle: Callable[[dict[str, bytes]], None]) -> None:
        super().__init__()
        self.at = at
        self.meddle = meddle

    def get(self, path: str) -> bytes | None:
        """Return the file's bytes."""
        self._count()
        return super().get(path)

    def read(self, path: str, start: int, length: int) -> bytes | None:
        """Return bytes of the file."""
        self._count()
        return super().read(path, start, length)

    def size(self, path: str) -> int | None:
        """Return the file's size."""
        self._count()
        return super().size(path)

    def _count(self) -> None:
        self.at -= 1
        if self.at == 0:
            self.meddle(self.held)


def read(files: MemoryFiles, after: int, before: int, generation: str = NEW) -> list[int]:
    """Return the numbers of the events that are found."""
    stored = StoredEvents(files, MemoryHistories())
    return [record["seq"] for record in stored.read(TASK, generation, after, before)]


def fill(files: MemoryFiles) -> MemoryFiles:
    """Store events 1 to 20 in the file, and 21 to 50 in three segments; and segments of an older generation."""
    files.held[events_path(TASK)] = lines(OLD, 1, 60) + lines(NEW, 1, 20)
    files.held[event_segment_path(TASK, OLD, 61)] = lines(OLD, 61, 70)
    for first in (21, 31, 41):
        files.held[event_segment_path(TASK, NEW, first)] = lines(NEW, first, first + 9)
    return files


def test_events_are_read_from_the_file_and_the_segments() -> None:
    files = fill(MemoryFiles())
    for after in (0, 5, 19, 20, 25, 30, 49, 50, 60):
        for before in (1, 6, 21, 22, 40, 51):
            assert read(files, after, before) == list(range(after + 1, before))
    assert read(files, 30, 99) == list(range(31, 51))
    assert read(files, 55, 99, OLD) == list(range(56, 71))
    assert read(files, 0, 9, "000000000003") == []


def test_a_file_that_is_replaced_during_the_read_is_read_on(small_pieces: None) -> None:
    """The merge adds lines before and after those that the reader wants, so all its offsets are void."""

    def merge(held: dict[str, bytes]) -> None:
        held[events_path(TASK)] = lines(OLD, 1, 73) + lines(NEW, 1, 60)

    for at in range(1, 60):
        files = MeddlingFiles(at, merge)
        files.held[events_path(TASK)] = lines(OLD, 1, 60) + lines(NEW, 1, 50)
        for after in (0, 7, 30, 48):
            assert read(files, after, 51) == list(range(after + 1, 51))


class CountingFiles(MemoryFiles):
    """Files that count the bytes that were read."""

    fetched = 0

    def get(self, path: str) -> bytes | None:
        """Return the file's bytes."""
        data = super().get(path)
        self.fetched += len(data or b"")
        return data

    def read(self, path: str, start: int, length: int) -> bytes | None:
        """Return bytes of the file."""
        data = super().read(path, start, length)
        self.fetched += len(data or b"")
        return data


def test_a_reader_that_waits_holds_a_piece_of_the_file() -> None:
    files, after = CountingFiles(), 4000
    files.held[events_path(TASK)] = lines(NEW, 1, 9000)
    reading = StoredEvents(files, MemoryHistories()).read(TASK, NEW, after, 9001)
    assert [next(reading)["seq"] for _ in range(3)] == [after + 1, after + 2, after + 3]
    assert files.fetched < len(files.held[events_path(TASK)]) // 2


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorted_lines, "PIECE_BYTES", 200)
    monkeypatch.setattr(sorted_lines, "PROBE_BYTES", 70)


def test_a_segment_that_cannot_be_read_is_damage() -> None:
    files = fill(MemoryFiles())
    files.held[event_segment_path(TASK, NEW, 31)] = b"{\n"
    with pytest.raises(CorruptHistory, match=event_segment_path(TASK, NEW, 31)):
        read(files, 20, 51)
