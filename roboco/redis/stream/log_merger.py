"""Both logs of a task as one sequence, also while messages are appended and trimmed.

    event log ── pages ──┐                         is an event missing at the start of a page?
                         ├─► next of both ─► no:  yield it
    content log ─ pages ─┘                   yes: the missing events from the workspace, then the log again
                                                  not there either: an error event reports the gap

Order: an event carries the number of chunks before it, a chunk the number of events before it. So the next message is
known if both logs have one. If a log had no more when it was read, before the other log, it is read again.

Trims: a coordinator stores events in the workspace before it removes them from the log, and removes the oldest ones
only. So a page has no gap except at its start. Trimmed chunks are not missing here: the merged stream takes their text
from the history.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

from roboco.errors import TransientError
from roboco.redis.stream.position import Record, StreamPosition

ReadLog = Callable[[str, int, int], list[tuple[int, str]]]
"""Reads numbers and messages of a log after a number, at most as many as the last argument, at one moment."""
ReadArchive = Callable[[str, str, int, int], Iterator[Record]]
"""Reads archived events of a task and a generation, after one number and before another one, up to the first gap."""
LOST_EVENTS = "events_lost"
"""The code of the error that reports events which neither Redis nor the workspace has."""


class UnreachableArchive(TransientError):
    """The workspace, which has the archived events, cannot be read now. Redis is not the cause."""


class ArchiveNeeded(Exception):
    """The logs lack events that are archived, and the reader of the logs may not read the archive."""


class LogMerger:
    """Reads the logs of one task. `log_names` names its content log and its event log.

    Without an archive it raises ArchiveNeeded at the first event that the log lacks.
    """

    def __init__(
        self,
        read_page: ReadLog,
        archive: ReadArchive | None,
        task_id: str,
        log_names: tuple[str, str],
        page: int,
    ) -> None:
        self._read_page = read_page
        self._archive = archive
        self._task_id = task_id
        self._content, self._events = log_names
        self._page = page
        self._reads = self._chunks_read_at = self._events_read_at = 0

    def merge(self, position: StreamPosition) -> Iterator[Record]:
        """Yield the messages after the position, in order. The caller moves the position before it asks for another.

        A message of another generation ends the sequence.
        """
        chunks, events = self._read_chunks(position.chunks), self._read_events(position)
        chunk, event = next(chunks, None), next(events, None)
        while chunk or event:
            if event and (chunk is None or event["chunks"] < chunk["seq"]):
                if chunk is None and event["chunks"] > position.chunks and self._chunks_read_at < self._events_read_at:
                    chunks = self._read_chunks(position.chunks)
                    if (chunk := next(chunks, None)) is not None:
                        continue
                yield event
                event = next(events, None)
            elif chunk:
                if event is None and chunk["events"] > position.events and self._events_read_at < self._chunks_read_at:
                    events = self._read_events(position)
                    if (event := next(events, None)) is not None:
                        continue
                yield chunk
                chunk = next(chunks, None)

    def _read_chunks(self, after: int) -> Iterator[Record]:
        while True:
            self._reads += 1
            self._chunks_read_at = self._reads
            page = self._read_page(self._content, after, self._page)
            yield from map(_message, page)
            if len(page) < self._page:
                return
            after = page[-1][0]

    def _read_events(self, position: StreamPosition) -> Iterator[Record]:
        generation, after = position.generation, position.events
        while True:
            self._reads += 1
            self._events_read_at = self._reads
            page = self._read_page(self._events, after, self._page)
            records = map(_message, page)
            first = next(records, None)
            if first is None:
                return
            if first["generation"] == generation and first["seq"] > after + 1:
                before = after
                for record in self._archived(generation, after, first["seq"]):
                    after = record["seq"]
                    yield record
                if after > before:
                    continue
                yield _lost_events(first, after)
            yield first
            yield from records
            if len(page) < self._page:
                return
            after = page[-1][0]

    def _archived(self, generation: str, after: int, before: int) -> Iterator[Record]:
        if self._archive is None:
            raise ArchiveNeeded
        try:
            yield from self._archive(self._task_id, generation, after, before)
        except TransientError as error:
            raise UnreachableArchive(str(error)) from error


def is_unnumbered(record: Record) -> bool:
    """Return True if the message is in no log, so that it does not move the position of a follower."""
    return record.get("type") == "event_error" and not record.get("generation")


def _message(entry: tuple[int, str]) -> Record:
    record: Record = json.loads(entry[1])
    return record


def _lost_events(following: Record, after: int) -> Record:
    """Return the error event about the gap between an event and the one that follows in the log."""
    missing = f"{after + 1} to {following['seq'] - 1}"
    remedy = "restore the task's folder in the workspace; its steps are complete"
    fields: dict[str, Any] = {
        "type": "event_error",
        "seq": 0,
        "generation": "",
        "chunks": 0,
        "task_id": following["task_id"],
        "timestamp": following["timestamp"],
        "code": LOST_EVENTS,
        "message": f"events {missing} are neither in Redis nor in the workspace: {remedy}",
    }
    return fields


def lost_step(record: Record) -> Record:
    """Return the error event in place of one whose step is not in the workspace. It has the same number."""
    numbers = {name: record[name] for name in ("seq", "generation", "chunks", "task_id", "timestamp")}
    message = f"step {record['step_seq']} is not in the workspace: restore the task's folder"
    return numbers | {"type": "event_error", "code": LOST_EVENTS, "message": message}
