"""The task index, and the progress of scans, in memory."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import cast

from roboco.domain.status import TaskStatus
from roboco.domain.task_entry import TaskEntry
from roboco.domain.task_filter import TaskFilter
from roboco.errors import UsageError
from roboco.ports.clock import Clock
from roboco.ports.task_index import Rebuild, S, TaskIndex, TaskPage
from tests.support.memory_ports.server import MemoryServer


class MemoryTaskIndex(TaskIndex):
    """The entries of tasks by id. Times have milliseconds."""

    def __init__(self, server: MemoryServer, clock: Clock) -> None:
        self._server = server
        self._clock = clock

    def put(self, entries: Sequence[TaskEntry]) -> None:
        with self._server as held:
            for entry in map(_in_milliseconds, entries):
                before = held.entries.get(entry.task_id)
                if before is None or _supersedes(entry, before):
                    held.entries[entry.task_id] = entry if before is None else _with_times_of(entry, before)

    def remove(self, task_id: str, only_open: bool = False) -> None:
        with self._server as held:
            if task_id in held.entries and not (only_open and held.entries[task_id].status.ended):
                del held.entries[task_id]

    def trim(self, before: datetime, max_ended: int, limit: int) -> int:
        with self._server as held:
            ended = sorted((entry for entry in held.entries.values() if entry.status.ended), key=_key)
            excess = len(ended) - max_ended
            for number, entry in enumerate(found := ended[:limit]):
                if number < excess or entry.updated_at < before:
                    held.index_trimmed = max(held.index_trimmed or entry.updated_at, entry.updated_at)
                    del held.entries[entry.task_id]
            return sum(entry.task_id not in held.entries for entry in found)

    def ended(self, task_ids: Sequence[str]) -> list[bool | None]:
        with self._server as held:
            found = [held.entries.get(task_id) for task_id in task_ids]
        return [None if entry is None else entry.status.ended for entry in found]

    def team(self, task_id: str) -> str | None:
        with self._server as held:
            return held.entries[task_id].team if task_id in held.entries else None

    def count_queued(self) -> int:
        with self._server as held:
            return sum(entry.status is TaskStatus.QUEUED for entry in held.entries.values())

    def page(self, wanted: TaskFilter, cursor: str = "", limit: int = 50) -> TaskPage:
        milliseconds, dash, task_id = cursor.partition("-")
        if cursor and not (dash and milliseconds.isdigit()):
            raise UsageError(f"cursor {cursor!r} is not one of a page of tasks")
        with self._server as held:
            entries = sorted(held.entries.values(), key=_key, reverse=True)
            trimmed = held.index_trimmed
        rebuild = self.load_scan(Rebuild)
        if cursor:
            at = datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=int(milliseconds))
            entries = [entry for entry in entries if _key(entry) < (at, task_id)]
        found = [entry for entry in entries if wanted.matches(entry)]
        last = found[limit - 1] if len(found) > limit else None
        after = "" if last is None else f"{last.updated_at.timestamp() * 1000:.0f}-{last.task_id}"
        read = 0 if rebuild is None else rebuild.tasks_read
        return TaskPage(tuple(found[:limit]), after, rebuild is not None and rebuild.complete, read, trimmed)

    def lock_scan(self, kind: type[S], token: str, seconds: float) -> bool:
        now = self._clock.now()
        with self._server as held:
            holder, until = held.scan_locks.get(kind, ("", 0.0))
            if until <= now:
                held.scan_locks[kind] = (token, now + seconds)
            return until <= now or holder == token

    def load_scan(self, kind: type[S]) -> S | None:
        with self._server as held:
            return cast(S | None, held.scans.get(kind))

    def save_scan(self, before: S | None, after: S) -> bool:
        with self._server as held:
            if held.scans.get(type(after)) not in (before, after):
                return False
            held.scans[type(after)] = after
            return True


def _supersedes(entry: TaskEntry, before: TaskEntry) -> bool:
    if before.status.ended != entry.status.ended:
        return entry.status.ended
    return entry.epoch >= before.epoch


def _with_times_of(entry: TaskEntry, before: TaskEntry) -> TaskEntry:
    if entry.status not in (TaskStatus.QUEUED, TaskStatus.RUNNING):
        return entry
    at = before.updated_at if (entry.status, entry.waits) == (before.status, before.waits) else entry.updated_at
    return entry.model_copy(update={"created_at": before.created_at, "updated_at": at})


def _in_milliseconds(entry: TaskEntry) -> TaskEntry:
    times = {
        name: at.replace(microsecond=at.microsecond // 1000 * 1000)
        for name, at in (("created_at", entry.created_at), ("updated_at", entry.updated_at))
    }
    return entry.model_copy(update=times)


def _key(entry: TaskEntry) -> tuple[datetime, str]:
    return entry.updated_at, entry.task_id
