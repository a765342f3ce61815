"""stored_events: read the archived events of a task from its workspace: from segments, and from `events.jsonl`.

A coordinator merges the segments into `events.jsonl` and then deletes them. So a reader looks for an event in the
segments first, and then in the file: an event that is in neither is not archived, or lost.

A reader may wait for its client between two events. It then holds a segment, or a piece of the file, and no more.
"""

import io
import json
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any

from roboco.domain.paths import event_segment_path, event_segments_path, events_path
from roboco.domain.sorted_lines import lines_from
from roboco.domain.stream.event_file import from_stored, place_of, segment_places
from roboco.errors import CorruptHistory
from roboco.ports.workspace import Files, Histories


class StoredEvents:
    """The archived events of all tasks."""

    def __init__(self, files: Files, histories: Histories) -> None:
        self._files = files
        self._histories = histories

    def read(self, task_id: str, generation: str, after: int, before: int) -> Iterator[dict[str, Any]]:
        """Yield the events of this generation after one number and before another one, in order.

        The iterator ends early at an event that the workspace does not have. It fetches each segment when it needs it.
        """
        lines = self._lines(task_id, generation, after, before)
        return from_stored(lines, partial(self._histories.read, task_id))

    def _lines(self, task_id: str, generation: str, after: int, before: int) -> Iterator[dict[str, Any]]:
        progress = True
        while progress and after + 1 < before:
            progress = False
            for records in (self._in_segments(task_id, generation, after), self._in_file(task_id, generation, after)):
                for record in records:
                    if record["seq"] == after + 1:
                        after, progress = after + 1, True
                        yield record
                    if after + 1 >= before:
                        return
                if progress:  # look for the next one in the segments first: another worker may have archived more
                    break

    def _segments(self, task_id: str, generation: str, after: int) -> Iterator[str]:
        """Yield the paths of the segments from the last one that may begin with, or before, the next event."""
        places = segment_places(self._files.names(event_segments_path(task_id)))
        found = [first for of, first in places if of == generation]
        begin = max((first for first in found if first <= after + 1), default=0)
        for first in found:
            if begin and first >= begin:
                yield event_segment_path(task_id, generation, first)

    def _in_segments(self, task_id: str, generation: str, after: int) -> Iterator[dict[str, Any]]:
        """Yield the events of these segments. Each is fetched whole: the limits of the logs bound its size.

        Raise CorruptHistory if a segment, which is written at once, cannot be read.
        """
        for path in self._segments(task_id, generation, after):
            for line in io.BytesIO(self._files.get(path) or b""):
                try:
                    event = json.loads(line)
                except ValueError:
                    raise CorruptHistory(f"{path!r} holds an event that cannot be read") from None
                yield event

    def _in_file(self, task_id: str, generation: str, after: int) -> Iterator[dict[str, Any]]:
        """Yield the events of `events.jsonl` after this number, up to the first gap.

        A merge that replaces the file meanwhile moves its lines. Then its size differs, and it is searched again.
        """
        path, size = events_path(task_id), None
        while (now := self._files.size(path)) not in (None, size):
            size = now
            with suppress(ValueError):  # a line was cut; one that cannot be read at all is reported as a lost event
                for line in lines_from(partial(self._part, path), size or 0, place_of, (generation, after + 1)):
                    if place_of(line) != (generation, after + 1):
                        break
                    after += 1
                    yield json.loads(line)

    def _part(self, path: str, start: int, length: int) -> bytes:
        return self._files.read(path, start, length) or b""
