"""The sweeper's schedule on Redis."""

import uuid
from collections.abc import Iterator
from typing import Any, cast

from roboco.adapters.redis.client import run_of, same_run
from roboco.adapters.redis.keys import Keys
from roboco.adapters.redis.scripts import Scripts, answering
from roboco.domain.paths import ENTER, RESTART

PAGE = 500
"""Entries that are read or sent at a time."""
MARK = "|"
"""Stands between the parts of a mark of the sentinel."""


class RedisSchedule:
    """The schedule: a sorted set of open tasks by due time, and one of other entries, such as notices.

    With two sets the size of the first is the number of open tasks. No task id contains "/"; every other entry does.
    """

    def __init__(self, scripts: Scripts, keys: Keys) -> None:
        self._scripts = scripts
        self._client = scripts.client
        self._keys = keys

    def put(self, task_id: str, delay: float = 0.0) -> None:
        """Make the task due after the delay."""
        self._schedule(task_id, delay)

    def add(self, task_id: str, delay: float = 0.0) -> bool:
        """Make the task due after the delay, unless it has a time already. Return True if it had none."""
        return self._schedule(task_id, delay, "NX")

    def schedule_no_later_than(self, task_id: str, delay: float = 0.0) -> None:
        """Make the task due after the delay, unless it is due earlier."""
        self._schedule(task_id, delay, "LT")

    def due(self, limit: int) -> list[str]:
        """Return at most `limit` due tasks, earliest first."""
        found: list[tuple[float, str]] = []
        for key in (self._keys.schedule, self._keys.telling):
            flat = self._scripts.run("schedule_due", [key], limit)
            found += zip(map(float, flat[1::2]), map(str, flat[::2]), strict=True)
        return [name for _, name in sorted(found)[:limit]]

    def _schedule(self, task_id: str, delay: float, condition: str = "") -> bool:
        return bool(self._scripts.run("schedule_set", [self._of(task_id)], task_id, f"{delay:.6f}", condition))

    def count(self) -> int:
        """Return the number of tasks in the schedule: all open tasks."""
        with answering():
            return int(self._client.zcard(self._keys.schedule))

    def at(self, task_id: str) -> float | None:
        """Return when the task is due, in Unix seconds; None if it has no time."""
        with answering():
            score: Any = self._client.zscore(self._of(task_id), task_id)
            return None if score is None else float(score)

    def drop(self, task_id: str, at: float | None = None) -> None:
        """Remove the task from the schedule. With `at`, only if it is due then."""
        self._scripts.run("schedule_remove", [self._of(task_id)], task_id, "" if at is None else f"{at:.17g}")

    def time(self) -> float:
        """Return Redis' time in Unix seconds."""
        with answering():
            answer: Any = self._client.time()
        seconds, micros = answer
        return int(seconds) + int(micros) / 1e6

    def known(self) -> Iterator[str]:
        """Return every task that has a time, in any order, read in pages."""
        cursor, seen = 0, False
        while cursor or not seen:
            with answering():
                cursor, page = cast(Any, self._client.zscan(self._keys.schedule, cursor, count=PAGE))
            seen = True
            yield from (str(name) for name, _ in page)

    def _of(self, name: str) -> str:
        return self._keys.telling if "/" in name else self._keys.schedule

    def lock(self, token: str, seconds: float) -> bool:
        """Take the sweepers' lock for so many seconds. Return False if another sweeper holds it."""
        with answering():
            holder = self._client.set(self._keys.sweeper, token, nx=True, px=int(seconds * 1000), get=True)
            return holder is None or holder == token

    def intact(self) -> bool:
        """Return True if Redis was neither emptied nor restarted since the last `begin`."""
        with answering():
            return same_run(self._client, cast(str | None, self._client.get(self._keys.sentinel)))

    def recovered(self, task_id: str) -> str | None:
        """Return the name of this run of Redis if it is intact and the sweeper has nothing to recover of the task."""
        with answering():
            run = cast(str | None, self._client.get(self._keys.sentinel))
            waits = [self._client.zscore(self._keys.telling, f"{kind}{task_id}") for kind in (RESTART, ENTER)]
            return run if waits == [None, None] and same_run(self._client, run) else None

    def restarted(self) -> bool:
        """Return True if Redis was restarted or replaced since the last `begin`, and not if it was emptied."""
        with answering():
            before = (cast(str | None, self._client.get(self._keys.sentinel)) or "").partition(MARK)[0]
            return before != "" and not same_run(self._client, before)

    def fresh(self) -> bool:
        """Return True if the last `begin` was less than its `seconds` ago."""
        with answering():
            return bool(self._client.exists(self._keys.filled))

    def run(self) -> str:
        """Return the name of this run of Redis."""
        with answering():
            return run_of(self._client)

    def prepare(self) -> str:
        """Mark that the schedule is about to be filled, and return the mark: an intact sentinel is one itself.

        Else it holds the runs in which Redis was intact, this run, and a token, so that a lost mark is not made again.
        """
        with answering():
            run = run_of(self._client)
            now = cast(str | None, self._client.get(self._keys.sentinel)) or ""
            if same_run(self._client, now) or now.split(MARK)[1:2] == [run]:
                return now
            mark = MARK.join((now.partition(MARK)[0], run, uuid.uuid4().hex))
            self._client.set(self._keys.sentinel, mark)
            return mark

    def begin(self, seconds: float, mark: str | None = None) -> None:
        """Record that the schedule holds every open task, which counts as fresh for so many seconds."""
        with answering():
            if mark is None:
                self._client.set(self._keys.sentinel, run_of(self._client))
            else:
                marked_run = (mark.split(MARK)[1:2] or [mark])[0]
                if not self._scripts.run("schedule_confirm", [self._keys.sentinel], mark, marked_run):
                    return
            self._client.set(self._keys.filled, "1", px=int(seconds * 1000))
