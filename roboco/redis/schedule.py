"""The sweeper's schedule on Redis.

The sentinel names the Redis instance in which the schedule was complete. If Redis lost its data or is another instance,
the sentinel does not match, and the sweeper fills the schedule from the workspace before it relies on it.

Each shard has two sorted sets, whose hash tag keeps them on the node of the shard's tasks. Only `count`, `task_ids` and
`enter` use more than one shard.
"""

import uuid
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, cast

from roboco.domain.ids import SHARDS, shard_of
from roboco.domain.paths import ENTER_PREFIX, RESTART_PREFIX
from roboco.errors import TransientError
from roboco.ports.schedule import ClaimedEntry, FillClaim, FillPosition, ScheduledPage
from roboco.redis.client import instance_id, is_same_instance, server_time
from roboco.redis.cluster import LazyCluster
from roboco.redis.keys import Keys
from roboco.redis.scripts import ScriptCall, Scripts, translating_errors

PAGE_SIZE = 500
"""Entries that one request reads or sends."""
MARK_SEPARATOR = "|"
"""Separates the parts of the sentinel's mark."""
FILL_TTL = 900.0
"""Seconds after the last claim for which Redis keeps the record of a fill. A later one with its mark begins anew."""


class RedisSchedule:
    """The schedule: for each shard a sorted set of open tasks by due time, and one of jobs, such as notifications.

    Because jobs have their own set, the size of the first set is the number of open tasks. No task id contains "/";
    the name of every job does.
    """

    def __init__(self, scripts: Scripts, keys: Keys) -> None:
        self._scripts = scripts
        self._client = scripts.client
        self._keys = keys

    def set(self, task_id: str, delay: float = 0.0) -> None:
        """Make the task due after the delay."""
        self._set_due(task_id, delay)

    def schedule_no_later_than(self, task_id: str, delay: float = 0.0) -> None:
        """Make the task due after the delay, unless it is due earlier."""
        self._set_due(task_id, delay, "LT")

    def enter(self, names: Sequence[str], delay: float = 0.0, replace: bool = True) -> frozenset[int]:
        """Set the times of many entries in one round trip to each node.

        Raise TransientError if a single Redis does not answer. On a cluster, return the shards of nodes that do not.
        """
        by_key: defaultdict[tuple[int, str], list[str]] = defaultdict(list)
        for name in names:
            by_key[shard_of(name), self._key_of(name)].append(name)
        calls, shards = list[ScriptCall](), list[int]()
        for (shard, key), members in by_key.items():
            for start in range(0, len(members), PAGE_SIZE):
                page = members[start : start + PAGE_SIZE]
                calls.append(ScriptCall("schedule_enter", [key], [f"{delay:.6f}", "" if replace else "NX", *page]))
                shards.append(shard)
        answers = self._scripts.run_all(calls)
        failed = dict(pair for pair in zip(shards, answers, strict=True) if isinstance(pair[1], Exception))
        for error in failed.values():
            if not (isinstance(error, TransientError) and isinstance(self._client, LazyCluster)):
                raise error
        return frozenset(failed)

    def claim(self, shard: int, limit: int, seconds: float) -> list[ClaimedEntry]:
        """Claim due entries of the shard, in one round trip."""
        names = [self._keys.schedule(shard), self._keys.scheduled_jobs(shard)]
        flat = self._scripts.run("schedule_claim", names, limit, f"{seconds:.6f}")
        return [
            ClaimedEntry(str(name), float(at), float(overdue))
            for name, at, overdue in zip(flat[::3], flat[1::3], flat[2::3], strict=True)
        ]

    def _set_due(self, task_id: str, delay: float, condition: str = "") -> None:
        self._scripts.run("schedule_set", [self._key_of(task_id)], task_id, f"{delay:.6f}", condition)

    def count(self) -> int:
        """Return the number of tasks in the schedule: all open tasks. Cost: a ZCARD for each shard, in one pipeline."""
        with translating_errors(), self._client.pipeline(transaction=False) as pipe:
            for shard in range(SHARDS):
                pipe.zcard(self._keys.schedule(shard))
            return sum(map(int, pipe.execute()))

    def remove(self, task_id: str, at: float | None = None) -> None:
        """Remove the task from the schedule. With `at`, only if that is still its due time."""
        self._scripts.run("schedule_remove", [self._key_of(task_id)], task_id, "" if at is None else f"{at:.17g}")

    def time(self) -> float:
        """Return Redis' time in Unix seconds."""
        with translating_errors():
            return server_time(self._client)

    def task_ids(self) -> Iterator[str]:
        """Return every task that has a due time, in any order, read in pages."""
        for shard in range(SHARDS):
            page = self.scan(shard)
            yield from page.task_ids
            while page.cursor:
                page = self.scan(shard, page.cursor)
                yield from page.task_ids

    def scan(self, shard: int, cursor: int = 0) -> ScheduledPage:
        """Return about PAGE_SIZE tasks of the shard, and the cursor of the next page."""
        with translating_errors():
            left, page = cast(Any, self._client.zscan(self._keys.schedule(shard), cursor, count=PAGE_SIZE))
        return ScheduledPage(tuple(str(name) for name, _ in page), int(left))

    def _sentinel(self) -> str | None:
        return cast(str | None, self._client.get(self._keys.sentinel))

    def _is_intact(self, sentinel: str | None, keys: Sequence[str] = ()) -> bool:
        """Return True if the sentinel names this instance. A mark does not, whatever nodes it contains."""
        is_mark = MARK_SEPARATOR in (sentinel or "")
        return not is_mark and is_same_instance(self._client, sentinel, keys)

    def _key_of(self, name: str) -> str:
        keys = self._keys
        return keys.scheduled_jobs(shard_of(name)) if "/" in name else keys.schedule(shard_of(name))

    def is_intact(self) -> bool:
        """Return True if Redis was neither emptied nor restarted since the schedule was last filled."""
        with translating_errors():
            return self._is_intact(self._sentinel())

    def recovered_instance(self, task_id: str) -> str | None:
        """Return the id of this Redis instance if the schedule is intact and nothing of the task waits for recovery.

        Otherwise return None. In a cluster, only the nodes of the sentinel, the task and its shard are asked. On a
        single Redis this takes one round trip.
        """
        sentinel, jobs = self._keys.sentinel, self._keys.scheduled_jobs(shard_of(task_id))
        names = [f"{kind}{task_id}" for kind in (RESTART_PREFIX, ENTER_PREFIX)]
        with translating_errors():
            if isinstance(self._client, LazyCluster):
                run = self._sentinel()
                waits = [self._client.zscore(jobs, name) for name in names]
                keys = (sentinel, jobs, self._keys.state(task_id))
                return run if waits == [None, None] and self._is_intact(run, keys) else None
            with self._client.pipeline(transaction=False) as pipe:
                pipe.get(sentinel)
                for name in names:
                    pipe.zscore(jobs, name)
                pipe.info("server")
                run, *waits, info = pipe.execute()
            return run if waits == [None, None] and run == info["run_id"] else None

    def was_restarted(self) -> bool:
        """Return True if Redis was restarted or replaced since the schedule was filled; False if it was emptied."""
        with translating_errors():
            before = (self._sentinel() or "").partition(MARK_SEPARATOR)[0]
            return before != "" and not is_same_instance(self._client, before)

    def recently_filled(self) -> bool:
        """Return True if the schedule was filled recently."""
        with translating_errors():
            return bool(self._client.exists(self._keys.schedule_filled))

    def instance_id(self) -> str:
        """Return the id of this Redis instance."""
        with translating_errors():
            return instance_id(self._client)

    def is_instance(self, instance_id: str) -> bool:
        """Return True if this is the Redis instance with that id."""
        with translating_errors():
            return is_same_instance(self._client, instance_id)

    def mark_filling(self) -> str:
        """Mark that a sweeper is about to fill the schedule. Return the mark; an intact sentinel is its own mark.

        A new mark contains the instances in which Redis was intact, this instance and a token, so that no two marks are
        equal. Sweepers that see different nodes of a cluster share a mark, if none sees a node that it lacks.
        """
        with translating_errors():
            run = instance_id(self._client)
            now = self._sentinel() or ""
            if self._is_intact(now) or any(is_same_instance(self._client, one) for one in _marked_runs(now)):
                return now
            mark = MARK_SEPARATOR.join((now.partition(MARK_SEPARATOR)[0], run, uuid.uuid4().hex))
            self._scripts.run("set_key", [self._keys.sentinel], mark)
            return mark

    def mark_filled(self, seconds: float, mark: str | None = None) -> None:
        """Record that the schedule holds every open task, and counts as filled recently for these seconds.

        Record nothing if Redis has lost the mark.
        """
        with translating_errors():
            if mark is None:
                self._scripts.run("set_key", [self._keys.sentinel], instance_id(self._client))
            else:
                marked_run = (_marked_runs(mark) or [mark])[0]
                if not self._scripts.run("schedule_confirm", [self._keys.sentinel], mark, marked_run):
                    return
            self._scripts.run("set_key", [self._keys.schedule_filled], "1", "PX", int(seconds * 1000))

    def claim_fill(self, mark: str, first: FillPosition, token: str, seconds: float) -> FillClaim:
        """Claim the next page, by the clock of Redis."""
        arguments = (mark, first.to_text(), token, f"{seconds:.6f}", int(FILL_TTL * 1000))
        stored, granted = self._scripts.run("fill_claim", [self._keys.schedule_fill], *arguments)
        return FillClaim(FillPosition.parse(str(stored)), bool(granted))

    def advance_fill(self, token: str, position: FillPosition, delay: float = 0.0) -> bool:
        """Store the next position, if the token still has the claim."""
        arguments = (token, position.to_text(), f"{delay:.6f}")
        return bool(self._scripts.run("fill_advance", [self._keys.schedule_fill], *arguments))

    def finish_fill(self, token: str) -> None:
        """Delete the hash of the fill, if the token still has the claim."""
        self._scripts.run("fill_finish", [self._keys.schedule_fill], token)


def _marked_runs(mark: str) -> list[str]:
    """Return the instance in which a mark was made, or nothing for an intact sentinel."""
    return mark.split(MARK_SEPARATOR)[1:2]
