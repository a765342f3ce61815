"""What the sweeper works from, and what waits for a task, on Redis."""

from collections.abc import Iterator, Sequence
from typing import Any, cast

import redis

from roboco.adapters.redis.client import run_of, same_run
from roboco.adapters.redis.keys import Keys
from roboco.adapters.redis.scripts import Scripts, answering
from roboco.domain.canonical import canonical
from roboco.domain.event import AnyEvent
from roboco.domain.paths import ENTER, RESTART

PAGE = 500
KEPT = 86_400
"""Seconds after which the inbox of a task that Redis does not know is removed."""


class RedisAgenda:
    """When the sweeper looks at a task again: one sorted set, and one for what is to be told of tasks.

    They are two, so that it is known at once how many tasks are open: no task id holds a "/", every other entry does.
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

    def hasten(self, task_id: str, delay: float = 0.0) -> None:
        """Make the task due after the delay, unless it is due earlier."""
        self._schedule(task_id, delay, "LT")

    def due(self, limit: int) -> list[str]:
        """Return at most `limit` due tasks, earliest first."""
        found: list[tuple[float, str]] = []
        for key in (self._keys.agenda, self._keys.telling):
            flat = self._scripts.run("due", [key], limit)
            found += zip(map(float, flat[1::2]), map(str, flat[::2]), strict=True)
        return [name for _, name in sorted(found)[:limit]]

    def _schedule(self, task_id: str, delay: float, condition: str = "") -> bool:
        return bool(self._scripts.run("schedule", [self._of(task_id)], task_id, f"{delay:.6f}", condition))

    def count(self) -> int:
        """How many tasks stand in it, which is all that are open."""
        with answering():
            return int(self._client.zcard(self._keys.agenda))

    def drop(self, task_id: str) -> None:
        """Do not look at the task again."""
        with answering():
            self._client.zrem(self._of(task_id), task_id)

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
                cursor, page = cast(Any, self._client.zscan(self._keys.agenda, cursor, count=PAGE))
            seen = True
            yield from (str(name) for name, _ in page)

    def _of(self, name: str) -> str:
        return self._keys.telling if "/" in name else self._keys.agenda

    def lock(self, token: str, seconds: float) -> bool:
        """Whether this sweeper may sweep now, for so many seconds."""
        with answering():
            holder = self._client.set(self._keys.sweeper, token, nx=True, px=int(seconds * 1000), get=True)
            return holder is None or holder == token

    def intact(self) -> bool:
        """Whether Redis holds all that it held at the last `begin`: not if it was emptied or started again."""
        with answering():
            return same_run(self._client, cast(str | None, self._client.get(self._keys.sentinel)))

    def recovered(self, task_id: str) -> str | None:
        """Return the name of this run of Redis if it is intact and the sweeper has nothing to recover of the task."""
        with answering():
            run = cast(str | None, self._client.get(self._keys.sentinel))
            waits = [self._client.zscore(self._keys.telling, f"{kind}{task_id}") for kind in (RESTART, ENTER)]
            return run if waits == [None, None] and same_run(self._client, run) else None

    def restarted(self) -> bool:
        """Whether Redis was started again, or replaced, since the last `begin`; not if it was emptied."""
        with answering():
            run = cast(str | None, self._client.get(self._keys.sentinel))
            return run is not None and not same_run(self._client, run)

    def fresh(self) -> bool:
        """Whether the last `begin` was less than its `seconds` ago."""
        with answering():
            return bool(self._client.exists(self._keys.filled))

    def run(self) -> str:
        """Return the name of this run of Redis."""
        with answering():
            return run_of(self._client)

    def begin(self, seconds: float, run: str | None = None) -> None:
        """Note that every open task stands in the agenda, as of this run; that is fresh for so many seconds."""
        with answering():
            self._client.set(self._keys.sentinel, run or run_of(self._client))
            self._client.set(self._keys.filled, "1", px=int(seconds * 1000))


class RedisInbox:
    """Which items wait for a task: one set each."""

    def __init__(self, scripts: Scripts, keys: Keys) -> None:
        self._scripts = scripts
        self._keys = keys

    def knock(
        self,
        task_id: str,
        item_ids: Sequence[str],
        urgent: bool = False,
        epoch: int | None = None,
        hold: bool = False,
    ) -> None:
        """Note the items, and with `urgent` or `hold` ask for the end of the pending work (of this epoch)."""
        names = [self._keys.state(task_id), self._keys.inbox(task_id)]
        ends = "1" if urgent else "hold" if hold else "0"
        fixed = [ends, self._keys.signals, task_id, "" if epoch is None else epoch, KEPT]
        for start in range(0, len(item_ids) or urgent, PAGE):
            self._scripts.run("knock", names, *fixed, *item_ids[start : start + PAGE])

    def count(self, task_id: str) -> int:
        """Return how many items are noted."""
        with answering():
            waiting: Any = self._scripts.client.scard(self._keys.inbox(task_id))
            return int(waiting)

    def calm(self, task_id: str, epoch: int) -> None:
        """Nobody wants the pending work of this epoch to end any more."""
        self._scripts.run("calm", [self._keys.state(task_id)], epoch)

    def forget(self, task_id: str, item_id: str) -> None:
        """The item was taken over."""
        with answering():
            self._scripts.client.srem(self._keys.inbox(task_id), item_id)


class RedisLogs:
    """The logs of both channels: one stream each."""

    def __init__(self, client: redis.Redis, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    def events(self, task_id: str, after: int) -> Iterator[bytes]:
        """The messages of the execution channel after this number, oldest first."""
        return (message.encode() for _, message in self.entries(self._keys.events(task_id), after))

    def chunks(self, task_id: str, after: int) -> Iterator[bytes]:
        """The messages of the content channel after this number that are still kept, oldest first."""
        return (message.encode() for _, message in self.entries(self._keys.content(task_id), after))

    def announce(self, task_id: str, event: AnyEvent) -> None:
        """Publish an event that belongs to no task that is known: it has no number and is in no log."""
        with answering():
            self._client.publish(self._keys.events(task_id), canonical(event.model_dump(mode="json")))

    def entries(self, log: str, after: int, count: int | None = None) -> Iterator[tuple[int, str]]:
        """The numbers and messages of a log after this number, read in pages of so many."""
        size = count or PAGE
        while True:
            with answering():
                page: Any = self._client.xrange(log, min=f"({after}-0", count=size)
            for entry_id, fields in page:
                after = int(entry_id.partition("-")[0])
                yield after, fields["m"]
            if len(page) < size:
                return
