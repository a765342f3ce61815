"""The sweeper's schedule on Redis.

The sentinel names the Redis instance in which the schedule was complete. If Redis lost its data or is another instance,
the sentinel does not match, and the sweeper fills the schedule from the workspace before it relies on it.
"""

import uuid
from collections.abc import Iterator
from typing import Any, cast

from roboco.adapters.redis.client import instance_id, is_same_instance
from roboco.adapters.redis.keys import Keys
from roboco.adapters.redis.scripts import Scripts, translating_errors
from roboco.domain.paths import ENTER_PREFIX, RESTART_PREFIX

PAGE_SIZE = 500
"""Entries that are read or sent at a time."""
MARK_SEPARATOR = "|"
"""Separates the parts of the sentinel's mark."""


class RedisSchedule:
    """The schedule: a sorted set of open tasks by due time, and one of other jobs, such as notifications.

    Because jobs have their own set, the size of the first set is the number of open tasks. No task id contains "/";
    the name of every other job does.
    """

    def __init__(self, scripts: Scripts, keys: Keys) -> None:
        self._scripts = scripts
        self._client = scripts.client
        self._keys = keys

    def set(self, task_id: str, delay: float = 0.0) -> None:
        """Make the task due after the delay."""
        self._set_due(task_id, delay)

    def set_default(self, task_id: str, delay: float = 0.0) -> bool:
        """Make the task due after the delay, unless it has a due time. Return True if it had none."""
        return self._set_due(task_id, delay, "NX")

    def schedule_no_later_than(self, task_id: str, delay: float = 0.0) -> None:
        """Make the task due after the delay, unless it is due earlier."""
        self._set_due(task_id, delay, "LT")

    def due(self, limit: int) -> list[str]:
        """Return at most `limit` due tasks, earliest first."""
        found: list[tuple[float, str]] = []
        for key in (self._keys.schedule, self._keys.scheduled_jobs):
            flat = self._scripts.run("schedule_due", [key], limit)
            found += zip(map(float, flat[1::2]), map(str, flat[::2]), strict=True)
        return [name for _, name in sorted(found)[:limit]]

    def _set_due(self, task_id: str, delay: float, condition: str = "") -> bool:
        return bool(self._scripts.run("schedule_set", [self._key_of(task_id)], task_id, f"{delay:.6f}", condition))

    def count(self) -> int:
        """Return the number of tasks in the schedule: all open tasks."""
        with translating_errors():
            return int(self._client.zcard(self._keys.schedule))

    def due_at(self, task_id: str) -> float | None:
        """Return the due time of the task in Unix seconds, or None if it has none."""
        with translating_errors():
            score: Any = self._client.zscore(self._key_of(task_id), task_id)
            return None if score is None else float(score)

    def remove(self, task_id: str, at: float | None = None) -> None:
        """Remove the task from the schedule. With `at`, only if that is still its due time."""
        self._scripts.run("schedule_remove", [self._key_of(task_id)], task_id, "" if at is None else f"{at:.17g}")

    def time(self) -> float:
        """Return Redis' time in Unix seconds."""
        with translating_errors():
            answer: Any = self._client.time()
        seconds, micros = answer
        return int(seconds) + int(micros) / 1e6

    def task_ids(self) -> Iterator[str]:
        """Return every task that has a due time, in any order, read in pages."""
        cursor, seen = 0, False
        while cursor or not seen:
            with translating_errors():
                cursor, page = cast(Any, self._client.zscan(self._keys.schedule, cursor, count=PAGE_SIZE))
            seen = True
            yield from (str(name) for name, _ in page)

    def _key_of(self, name: str) -> str:
        return self._keys.scheduled_jobs if "/" in name else self._keys.schedule

    def lock(self, token: str, seconds: float) -> bool:
        """Acquire the sweepers' lock for these seconds. Return False if another sweeper holds it."""
        with translating_errors():
            holder = self._client.set(self._keys.sweeper, token, nx=True, px=int(seconds * 1000), get=True)
            return holder is None or holder == token

    def is_intact(self) -> bool:
        """Return True if Redis was neither emptied nor restarted since the schedule was last filled."""
        with translating_errors():
            return is_same_instance(self._client, cast(str | None, self._client.get(self._keys.sentinel)))

    def recovered_instance(self, task_id: str) -> str | None:
        """Return the id of this Redis instance if the schedule is intact and nothing of the task waits for recovery.

        Otherwise return None.
        """
        with translating_errors():
            run = cast(str | None, self._client.get(self._keys.sentinel))
            waits = [
                self._client.zscore(self._keys.scheduled_jobs, f"{kind}{task_id}")
                for kind in (RESTART_PREFIX, ENTER_PREFIX)
            ]
            return run if waits == [None, None] and is_same_instance(self._client, run) else None

    def was_restarted(self) -> bool:
        """Return True if Redis was restarted or replaced since the schedule was filled; False if it was emptied."""
        with translating_errors():
            before = (cast(str | None, self._client.get(self._keys.sentinel)) or "").partition(MARK_SEPARATOR)[0]
            return before != "" and not is_same_instance(self._client, before)

    def recently_filled(self) -> bool:
        """Return True if the schedule was filled recently."""
        with translating_errors():
            return bool(self._client.exists(self._keys.schedule_filled))

    def instance_id(self) -> str:
        """Return the id of this Redis instance."""
        with translating_errors():
            return instance_id(self._client)

    def mark_filling(self) -> str:
        """Mark that a sweeper is about to fill the schedule. Return the mark; an intact sentinel is its own mark.

        A new mark contains the instances in which Redis was intact, this instance and a token, so that no two marks are
        equal.
        """
        with translating_errors():
            run = instance_id(self._client)
            now = cast(str | None, self._client.get(self._keys.sentinel)) or ""
            if is_same_instance(self._client, now) or now.split(MARK_SEPARATOR)[1:2] == [run]:
                return now
            mark = MARK_SEPARATOR.join((now.partition(MARK_SEPARATOR)[0], run, uuid.uuid4().hex))
            self._client.set(self._keys.sentinel, mark)
            return mark

    def mark_filled(self, seconds: float, mark: str | None = None) -> None:
        """Record that the schedule holds every open task, and counts as filled recently for these seconds.

        Record nothing if Redis has lost the mark.
        """
        with translating_errors():
            if mark is None:
                self._client.set(self._keys.sentinel, instance_id(self._client))
            else:
                marked_run = (mark.split(MARK_SEPARATOR)[1:2] or [mark])[0]
                if not self._scripts.run("schedule_confirm", [self._keys.sentinel], mark, marked_run):
                    return
            self._client.set(self._keys.schedule_filled, "1", px=int(seconds * 1000))
