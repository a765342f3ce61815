"""The sweeper's schedule, the inboxes of tasks and their logs on Redis."""

import uuid
from collections.abc import Iterator, Sequence
from typing import Any, cast

import redis

from roboco.adapters.redis.client import run_of, same_run
from roboco.adapters.redis.keys import Keys
from roboco.adapters.redis.scripts import Scripts, answering
from roboco.domain.canonical_json import canonical
from roboco.domain.paths import ENTER, RESTART
from roboco.domain.stream.event import AnyEvent

PAGE = 500
MARK = "|"
"""Stands between the parts of a mark of the sentinel."""
KEPT = 86_400
"""Seconds after which the inbox of a task that Redis does not know is removed."""


class RedisAgenda:
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
        """Return the number of tasks in the schedule: all open tasks."""
        with answering():
            return int(self._client.zcard(self._keys.agenda))

    def at(self, task_id: str) -> float | None:
        """Return when the task is due, in Unix seconds; None if it has no time."""
        with answering():
            score: Any = self._client.zscore(self._of(task_id), task_id)
            return None if score is None else float(score)

    def drop(self, task_id: str, at: float | None = None) -> None:
        """Remove the task from the schedule. With `at`, only if it is due then."""
        self._scripts.run("drop", [self._of(task_id)], task_id, "" if at is None else f"{at:.17g}")

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
            elif not self._scripts.run("confirm", [self._keys.sentinel], mark, (mark.split(MARK)[1:2] or [mark])[0]):
                return
            self._client.set(self._keys.filled, "1", px=int(seconds * 1000))


class RedisInbox:
    """The ids of the items that wait for a task: one set for each task."""

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
        """Add the items, and with `urgent` or `hold` request the end of the pending work (of this epoch)."""
        names = [self._keys.state(task_id), self._keys.inbox(task_id)]
        ends = "1" if urgent else "hold" if hold else "0"
        fixed = [ends, self._keys.signals, task_id, "" if epoch is None else epoch, KEPT]
        for start in range(0, len(item_ids) or urgent, PAGE):
            self._scripts.run("knock", names, *fixed, *item_ids[start : start + PAGE])

    def count(self, task_id: str) -> int:
        """Return the number of items."""
        with answering():
            waiting: Any = self._scripts.client.scard(self._keys.inbox(task_id))
            return int(waiting)

    def calm(self, task_id: str, epoch: int) -> None:
        """Withdraw the request to end the pending work of this epoch."""
        self._scripts.run("calm", [self._keys.state(task_id)], epoch)

    def forget(self, task_id: str, item_id: str) -> None:
        """Remove the item."""
        with answering():
            self._scripts.client.srem(self._keys.inbox(task_id), item_id)


class RedisLogs:
    """The logs of both channels: one stream each."""

    def __init__(self, client: redis.Redis, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    def events(self, task_id: str, after: int) -> Iterator[bytes]:
        """Return the messages of the execution channel after this number, oldest first."""
        return (message.encode() for _, message in self.entries(self._keys.events(task_id), after))

    def chunks(self, task_id: str, after: int) -> Iterator[bytes]:
        """Return the messages of the content channel after this number that are still kept, oldest first."""
        return (message.encode() for _, message in self.entries(self._keys.content(task_id), after))

    def announce(self, task_id: str, event: AnyEvent) -> None:
        """Publish an event of a task that does not exist. It has no number and is stored in no log."""
        with answering():
            self._client.publish(self._keys.events(task_id), canonical(event.model_dump(mode="json")))

    def entries(self, log: str, after: int, count: int | None = None) -> Iterator[tuple[int, str]]:
        """Return the numbers and messages of a log after this number, read in pages."""
        size = count or PAGE
        while True:
            with answering():
                page: Any = self._client.xrange(log, min=f"({after}-0", count=size)
            for entry_id, fields in page:
                after = int(entry_id.partition("-")[0])
                yield after, fields["m"]
            if len(page) < size:
                return
