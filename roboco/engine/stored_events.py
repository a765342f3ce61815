"""stored_events: read the archived events of a task from its workspace: from segments, and from `events.jsonl`.

A coordinator merges the segments into `events.jsonl` and then deletes them. So a reader looks for an event in the
segments first, and then in the file: an event that is in neither is not archived, or lost.
"""

import json
from collections.abc import Iterator
from functools import partial
from itertools import chain
from typing import Any

from roboco.domain.paths import event_segment_path, event_segments_path, events_path
from roboco.domain.stream.event_file import from_stored, segment_place
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
            for files in (self._segments(task_id, generation, after), iter([events_path(task_id)])):
                for record in chain.from_iterable(map(partial(self._records, generation), files)):
                    if record["seq"] == after + 1:
                        after, progress = after + 1, True
                        yield record
                    if after + 1 >= before:
                        return
                if progress:  # look for the next one in the segments first: another worker may have archived more
                    break

    def _segments(self, task_id: str, generation: str, after: int) -> Iterator[str]:
        """Yield the paths of the segments from the last one that may begin with, or before, the next event."""
        folder = event_segments_path(task_id)
        places = [segment_place(name) for name in self._files.names(folder)]
        found = sorted(first for of, first in places if of == generation)
        begin = max((first for first in found if first <= after + 1), default=0)
        for first in found:
            if begin and first >= begin:
                yield event_segment_path(task_id, generation, first)

    def _records(self, generation: str, path: str) -> list[dict[str, Any]]:
        records = [json.loads(line) for line in (self._files.get(path) or b"").splitlines()]
        return [record for record in records if record.get("generation") == generation]
