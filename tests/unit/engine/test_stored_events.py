"""Archived events are read without a gap, also while a coordinator merges the segments."""

import json
from collections.abc import Callable

from roboco.domain.paths import event_segment_path, events_path
from roboco.engine.stored_events import StoredEvents
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
        self.at -= 1
        if self.at == 0:
            self.meddle(self.held)
        return super().get(path)


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


def test_a_missing_segment_ends_the_events() -> None:
    files = fill(MemoryFiles())
    del files.held[event_segment_path(TASK, NEW, 31)]
    assert read(files, 0, 51) == list(range(1, 31))
    assert read(files, 33, 51) == []
    assert read(files, 40, 51) == list(range(41, 51))


def test_a_segment_that_was_merged_before_is_ignored() -> None:
    """A slow worker creates it again."""
    files = fill(MemoryFiles())
    files.held[event_segment_path(TASK, NEW, 11)] = lines(NEW, 11, 14)
    for after in range(51):
        assert read(files, after, 51) == list(range(after + 1, 51))


def test_segments_that_are_merged_during_the_read_are_read_from_the_file() -> None:
    def merge(held: dict[str, bytes]) -> None:
        held[events_path(TASK)] = lines(OLD, 1, 70) + lines(NEW, 1, 50)
        for path in [path for path in held if "/events/" in path]:
            del held[path]

    for at in range(1, 6):
        for after in (0, 10, 20, 35):
            assert read(fill(MeddlingFiles(at, merge)), after, 51) == list(range(after + 1, 51))
