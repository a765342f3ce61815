"""The task index on Redis: the entries of each tenant by task id, and their order by status and time of change.

    put ─► index_put.lua: version older? ─► entry (hash) and its place in the orders (sorted sets), in one script
    page ─► newest members of each status ─► merge by time ─► entries ─► conditions on team and text ─► page, cursor

A member of an order is STATUS, TIME and task id, of which the first two have fixed lengths. All scores are equal, so
Redis sorts the members as text, and a range of text is a range of times of one status. Every list is a merge of at most
eleven such ranges. Therefore a page costs O(log n) and the members that it reads, whatever the filter.

All keys share a hash tag: in a cluster, one node holds the index. A task costs it some scripts for each change of its
status, and none for a step. A tenant's client reads and writes the keys of its tenant only; the workers enter its tasks
in the order of all tasks.
"""

import json
import logging
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from roboco.domain.canonical_json import well_formed
from roboco.domain.ids import tenant_of
from roboco.domain.status import TaskStatus
from roboco.domain.task_entry import TaskEntry
from roboco.domain.task_filter import TaskFilter
from roboco.errors import TransientError, UsageError
from roboco.ports.task_index import Rebuild, RetentionScan, S, TaskPage
from roboco.redis.keys import Keys
from roboco.redis.scripts import ScriptCall, Scripts, translating_errors

_log = logging.getLogger(__name__)

MAX_SCANNED = 2000
"""Entries that are checked for one page."""
SCAN_SIZE = 250
"""Entries that are read at a time while each is checked."""
RETRY_AFTER = 30.0
"""Seconds without writes after the index has not answered, so that tasks do not wait for it again and again."""
TIME_DIGITS = 13
_CODES = {
    TaskStatus.QUEUED: "oq",
    TaskStatus.RUNNING: "or",
    TaskStatus.USER_TURN: "ou",
    TaskStatus.CLIENT_TOOL_TURN: "ot",
    TaskStatus.APPROVAL: "oa",
    TaskStatus.PAUSED: "op",
    TaskStatus.COMPLETED: "ec",
    TaskStatus.FAILED: "ef",
    TaskStatus.CANCELLED: "ex",
    TaskStatus.GOALS_FAILED: "eg",
}
"""Two letters for each status, of which the first one is "e" if the task has ended."""
_RUNS_AND_WAITS = "ow"
"""The code of a running task of which a person or client is asked."""
_STATUSES = {code: status for status, code in _CODES.items()} | {_RUNS_AND_WAITS: TaskStatus.RUNNING}
_ENDED_CODES = tuple(code for status, code in _CODES.items() if status.ended)
_ALL_ENDED = ("[e", "(f")
"""The range of all members of ended tasks."""
_CURSOR = re.compile(rf"(\d{{{TIME_DIGITS}}})-([A-Za-z0-9_.:-]{{1,170}})")
_EPOCH = datetime.fromtimestamp(0, UTC)


class RedisTaskIndex:
    """The task index. With a tenant, it reads and writes the keys of that tenant only."""

    def __init__(self, scripts: Scripts, keys: Keys, tenant: str | None = None) -> None:
        self._scripts = scripts
        self._client = scripts.client
        self._keys = keys
        self._scan_keys: dict[type, tuple[str, str]] = {
            Rebuild: (keys.index_progress, keys.index_lock),
            RetentionScan: (keys.retention_progress, keys.retention_lock),
        }
        """The keys of the progress and the lock of each kind of scan."""
        self._tenant = tenant
        self._suspended_until = 0.0

    def put(self, entries: Sequence[TaskEntry]) -> None:
        """Store the entries, in one round trip."""
        if time.monotonic() < self._suspended_until:
            raise TransientError("the task index did not answer lately; it is tried again soon")
        calls = [(self._keys_of(entry.task_id), self._arguments(entry)) for entry in entries]
        try:
            self._run_all("index_put", calls)
        except TransientError:
            self._suspended_until = time.monotonic() + RETRY_AFTER
            raise

    def remove(self, task_id: str, only_open: bool = False) -> None:
        """Remove the entry of the task, or with `only_open` that of a task that has not ended."""
        self._scripts.run("index_remove", self._keys_of(task_id), task_id, "" if only_open else "*")

    def trim(self, before: datetime, max_ended: int, limit: int) -> int:
        """Remove the oldest ended tasks.

        Cost: O(log n) if there is none to remove, in one round trip. Else two more, `limit` members of each status of
        an end, and O(log n) for each entry that is removed.
        """
        if not self._removable(before, max_ended, 1):
            return 0
        removed = self._removable(before, max_ended, limit)
        self._note_trimmed(max(map(_position, removed), default="")[:TIME_DIGITS])
        calls = [(self._keys_of(_id_of(member)), [_id_of(member), member]) for member in removed]
        self._run_all("index_remove", calls)
        return len(calls)

    def _note_trimmed(self, newest: str) -> None:
        """Note the newest time of change of the entries that are removed next. One coordinator trims at a time."""
        with translating_errors():
            noted: Any = self._client.get(self._keys.index_trimmed)
            if newest > (noted or ""):
                self._scripts.run("set_key", [self._keys.index_trimmed], newest)

    def _removable(self, before: datetime, max_ended: int, limit: int) -> list[str]:
        """Return the oldest members of ended tasks, those before a time and those beyond a number, at most `limit`."""
        order = self._keys.index_order()
        with translating_errors(), self._client.pipeline(transaction=False) as pipe:
            pipe.zlexcount(order, *_ALL_ENDED)
            for code in _ENDED_CODES:
                pipe.zrange(order, f"[{code}", f"({code}:", bylex=True, offset=0, num=limit)
            ended, *oldest = pipe.execute()
        excess, first = int(ended) - max_ended, _digits(before)
        members = sorted((str(member) for page in oldest for member in page), key=_position)[:limit]
        return [
            member
            for number, member in enumerate(members)
            if number < excess or _position(member)[:TIME_DIGITS] < first
        ]

    def ended(self, task_ids: Sequence[str]) -> list[bool | None]:
        """Return for each task whether it has ended. Cost: one HMGET for each tenant, in one round trip."""
        values = self._values(task_ids)
        return [_has_ended(values[task_id]) for task_id in task_ids]

    def team(self, task_id: str) -> str | None:
        """Return the name of the task's team, or None if there is no entry that can be read. Cost: one HMGET."""
        data = (self._values([task_id])[task_id] or "").partition("\n")[2]
        try:
            return str(json.loads(data)[0])
        except (ValueError, TypeError, LookupError):
            return None

    def count_queued(self) -> int:
        """Return the number of tasks, of this client's tenant if it has one, that are queued. Cost: O(log n)."""
        queued = _CODES[TaskStatus.QUEUED]
        with translating_errors():
            found: Any = self._client.zlexcount(self._keys.index_order(self._tenant or ""), f"[{queued}", f"({queued}~")
            return int(found)

    def page(self, wanted: TaskFilter, cursor: str = "", limit: int = 50) -> TaskPage:
        """Return a page. Cost: at most eleven ranges for each `limit` entries, or with conditions for each 250."""
        position, found, scanned = _parse_cursor(cursor), list[TaskEntry](), 0
        is_checked = wanted.teams is not None or wanted.text or wanted.tenant == "" or wanted.what_if is not None
        size = SCAN_SIZE if is_checked else limit + 1
        while True:
            members, facts = self._newest(wanted, position, size)
            for number, (member, entry) in enumerate(zip(members, self._entries(members), strict=True)):
                scanned, position = scanned + 1, _position(member)
                if entry is not None and wanted.matches(entry):
                    found.append(entry)
                if len(found) == limit:
                    is_last = number + 1 == len(members) < size
                    return _page(found, "" if is_last else position, facts)
            if len(members) < size:
                return _page(found, "", facts)
            if scanned >= MAX_SCANNED:
                return _page(found, position, facts)

    def _newest(self, wanted: TaskFilter, before: str, size: int) -> tuple[list[str], "_Completeness"]:
        """Return the newest members before a position, and which tasks the index may lack."""
        tenant = self._tenant if self._tenant is not None else wanted.tenant
        order = self._keys.index_order(tenant or "")
        end = before or (":" if wanted.until is None else _digits(wanted.until, 1))
        start = _digits(wanted.since or _EPOCH)
        with translating_errors(), self._client.pipeline(transaction=False) as pipe:
            pipe.get(self._keys.index_progress)
            pipe.get(self._keys.index_trimmed)
            for code in (code for code, status in _STATUSES.items() if status in wanted.statuses):
                pipe.zrange(order, f"({code}{end}", f"[{code}{start}", desc=True, bylex=True, offset=0, num=size)
            progress, trimmed, *ranges = pipe.execute()
        members = sorted((str(member) for one in ranges for member in one), key=_position, reverse=True)
        return members[:size], _Completeness(None if progress is None else Rebuild.from_json(progress), trimmed or "")

    def _entries(self, members: Sequence[str]) -> Iterator[TaskEntry | None]:
        """Yield the entry of each member, or None if it is another one by now, or was removed."""
        values = self._values([_id_of(member) for member in members])
        return (_parse(member, values[_id_of(member)]) for member in members)

    def _values(self, task_ids: Sequence[str]) -> dict[str, str | None]:
        """Return the stored entry of each task, or None."""
        ids: dict[str, list[str]] = {}
        for task_id in task_ids:
            ids.setdefault(tenant_of(task_id), []).append(task_id)
        with translating_errors(), self._client.pipeline(transaction=False) as pipe:
            for tenant, of_tenant in ids.items():
                pipe.hmget(self._keys.index_entries(tenant), of_tenant)
            answers = pipe.execute() if ids else []
        pages = zip(ids.values(), answers, strict=True)
        return {task_id: value for of_tenant, page in pages for task_id, value in zip(of_tenant, page, strict=True)}

    def _keys_of(self, task_id: str) -> list[str]:
        """Return the keys that hold a task: its tenant's, and the order of all tasks unless this is a tenant's client.

        A task without a tenant is in the order of all tasks only.
        """
        tenant = tenant_of(task_id)
        keys = [self._keys.index_entries(tenant)]
        if tenant:
            keys.append(self._keys.index_order(tenant))
        if self._tenant is None:
            keys.append(self._keys.index_order())
        return keys

    def _arguments(self, entry: TaskEntry) -> list[Any]:
        numbers = (entry.steps, entry.tokens_in, entry.tokens_out, entry.cost)
        data = json.dumps([entry.team, entry.title, entry.reason, *numbers], ensure_ascii=False, separators=(",", ":"))
        code = _RUNS_AND_WAITS if entry.waits else _CODES[entry.status]
        keeps_times = entry.status in (TaskStatus.QUEUED, TaskStatus.RUNNING)
        return [
            *(entry.task_id, entry.epoch, _digits(entry.updated_at), _digits(entry.created_at), code),
            *(int(keeps_times), "a" if self._tenant is None else "t", well_formed(data)),
        ]

    def _run_all(self, name: str, calls: Sequence[tuple[list[str], list[Any]]]) -> None:
        """Run a script many times. Raise the first error after all calls."""
        if len(calls) == 1:
            self._scripts.run(name, calls[0][0], *calls[0][1])
        elif calls:
            answers = self._scripts.run_all([ScriptCall(name, *call) for call in calls])
            errors = (answer for answer in answers if isinstance(answer, Exception))
            if (error := next(errors, None)) is not None:
                raise error

    def lock_scan(self, kind: type[S], token: str, seconds: float) -> bool:
        """Acquire the lock for these seconds. Return False if another worker holds it."""
        lock = [self._scan_keys[kind][1]]
        return self._scripts.run("set_key", lock, token, "NX", "PX", int(seconds * 1000), "GET") in (None, token)

    def load_scan(self, kind: type[S]) -> S | None:
        """Return the progress, or None if there is none."""
        with translating_errors():
            stored: Any = self._client.get(self._scan_keys[kind][0])
            return None if stored is None else kind.from_json(stored)

    def save_scan(self, before: S | None, after: S) -> bool:
        """Replace the progress, if it is still `before`."""
        texts = ("" if one is None else one.to_json() for one in (before, after))
        return bool(self._scripts.run("index_progress", [self._scan_keys[type(after)][0]], *texts))


@dataclass(frozen=True)
class _Completeness:
    """Which tasks the index may lack."""

    rebuild: Rebuild | None
    """The progress of the rebuild, or None if none has begun."""
    trimmed: str
    """The newest time of change of a task that was removed, or ""."""


def _page(found: Iterable[TaskEntry], position: str, facts: _Completeness) -> TaskPage:
    cursor = f"{position[:TIME_DIGITS]}-{position[TIME_DIGITS:]}" if position else ""
    rebuild = facts.rebuild
    return TaskPage(
        tuple(found),
        cursor,
        complete=rebuild is not None and rebuild.complete,
        tasks_read=0 if rebuild is None else rebuild.tasks_read,
        trimmed_until=_EPOCH + timedelta(milliseconds=int(facts.trimmed)) if facts.trimmed else None,
    )


def _parse_cursor(cursor: str) -> str:
    if not cursor:
        return ""
    if (found := _CURSOR.fullmatch(cursor)) is None:
        raise UsageError(f"cursor {cursor!r} is not one of a page of tasks")
    return found[1] + found[2]


def _has_ended(value: str | None) -> bool | None:
    """Return True if the entry is that of an ended task, or None if it cannot be read."""
    code = (value or "").partition("\n")[0].split(" ")[3:4]
    return _STATUSES[code[0]].ended if code and code[0] in _STATUSES else None


def _parse(member: str, value: str | None) -> TaskEntry | None:
    """Return the entry of a member, or None if the stored one is another one or cannot be read."""
    head, _, data = (value or "").partition("\n")
    try:
        version, at, created, code, _ = head.split(" ")
        team, title, reason, steps, tokens_in, tokens_out, cost = json.loads(data)
        if member != f"{code}{at}{_id_of(member)}":
            return None
        return TaskEntry(
            task_id=_id_of(member),
            team=team,
            title=title,
            status=_STATUSES[code],
            reason=reason,
            waits=code == _RUNS_AND_WAITS,
            steps=steps,
            tokens_in=tokens_in,
            tokens_out=tokens_out,
            cost=cost,
            created_at=_EPOCH + timedelta(milliseconds=int(created)),
            updated_at=_EPOCH + timedelta(milliseconds=int(at)),
            epoch=int(version),
        )
    except (ValueError, TypeError, KeyError):
        if value is not None:
            _log.debug("the task index holds an entry of task %s that cannot be read", _id_of(member))
        return None


def _position(member: str) -> str:
    """Return the part of a member by which lists are sorted: the time and the id."""
    return member[2:]


def _id_of(member: str) -> str:
    return member[2 + TIME_DIGITS :]


def _digits(at: datetime, later: int = 0) -> str:
    """Return a time, or that of so much later, in milliseconds, always with as many digits."""
    milliseconds = int((at - _EPOCH) / timedelta(milliseconds=1)) + later
    return f"{min(max(milliseconds, 0), 10**TIME_DIGITS - 1):0{TIME_DIGITS}d}"
