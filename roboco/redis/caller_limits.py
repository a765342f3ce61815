"""Limits of callers of the gateway on Redis: requests, bytes, streams and open tasks.

    request ─► caller_admit ─► counted, or Retry-After     one script, O(1)
    stream ──► caller_streams ─► leased to the process     the lease of a dead process ends by itself
    task ────► caller_task_add ─► added, or refused        ended tasks are removed when a limit is reached

All keys of a tenant have one hash tag, so that a script sees the caller's and the tenant's. Each key expires. They
hold no record: if Redis is emptied, counting starts anew.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from roboco.domain.access_key import CallerLimits
from roboco.redis.keys import Keys
from roboco.redis.scripts import Scripts, translating_errors

STREAM_LEASE: Final = 30.0
"""Seconds after which the streams of a process that has died no longer count."""
STREAM_RETRY: Final = 5.0
TASK_RETRY: Final = 10.0
"""Seconds after which a caller asks again that has too many streams, or tasks."""
TASKS_TTL: Final = 30 * 86_400
"""Seconds for which the open tasks of a caller that creates no more are kept."""
_TASK_LIMITS: Final = ("open_tasks", "open_bytes")
_ADMIT_LIMITS: Final = ("requests_per_minute", "bytes_per_minute")


@dataclass(frozen=True)
class Account:
    """A caller, and the limits that apply to it."""

    tenant: str
    """Its tenant, or ""."""
    by: str
    """Its identity."""
    own: CallerLimits
    """The limits of the caller alone."""
    shared: CallerLimits
    """The limits of all callers of its tenant together. They never apply to a caller without a tenant."""


@dataclass(frozen=True)
class Accepted:
    """The request is counted."""

    remaining: int | None = None
    """The requests that the caller may make at once now, or None if they are not limited."""
    seconds: float = 0.0
    """The seconds until it may make the full number at once."""


@dataclass(frozen=True)
class LimitReached:
    """A limit is reached, and nothing is counted."""

    limit: str
    """The name of the limit, as `CallerLimits` names it; with "tenant_" before it if it is the tenant's."""
    seconds: float
    """The seconds after which the same request can be accepted, or an estimate."""


class RedisCallerCounts:
    """Counts of requests, bytes and streams. Methods raise RefusedWrites if Redis is full."""

    def __init__(self, scripts: Scripts, keys: Keys) -> None:
        self._scripts = scripts
        self._keys = keys

    def admit(self, account: Account, size: int) -> Accepted | LimitReached:
        """Count a request with a body of this many bytes. A body beyond the limit is accepted if none is unpaid.

        Not idempotent: a request whose answer is lost counts twice if it is repeated.
        """
        if not (limits := self._admit_limits(account)):
            return Accepted()
        index, first, *rest = self._admit(account, size, True, limits)
        if index:
            name = _ADMIT_LIMITS[(index - 1) % 2]
            return LimitReached(name if index <= 2 else f"tenant_{name}", first / 1000)
        return Accepted(None if first < 0 else first, rest[0] / 1000)

    def charge(self, account: Account, size: int) -> None:
        """Count bytes that a request did not announce. They delay the next request."""
        if limits := self._admit_limits(account):
            self._admit(account, size, False, limits)

    def hold_streams(self, account: Account, process: str, own: int, shared: int) -> LimitReached | None:
        """Lease this many open streams to the process, in place of its earlier number. LimitReached changes nothing.

        `own` are the caller's, and `shared` those of all callers of its tenant.
        """
        index = self._streams(account, process, own, shared, "1")
        return LimitReached(_limit_name("open_streams", index), STREAM_RETRY) if index else None

    def renew_streams(self, account: Account, process: str, own: int, shared: int) -> None:
        """Renew the lease with these numbers, whatever the limit. The lease of a process that has died ends."""
        self._streams(account, process, own, shared, "0")

    def _admit_limits(self, account: Account) -> list[int | str]:
        """Return the four limits as arguments of the script, or [] if there is none."""
        limits = [_or_none(getattr(of, name)) for of in (account.own, _shared(account)) for name in _ADMIT_LIMITS]
        return limits if any(limits) else []

    def _admit(self, account: Account, size: int, refuse: bool, limits: list[int | str]) -> list[int]:
        names = [
            *(self._keys.caller(account.tenant, account.by, name) for name in ("requests", "bytes")),
            *(self._keys.tenant_of_callers(account.tenant, name) for name in ("requests", "bytes")),
        ]
        found: list[int] = self._scripts.run("caller_admit", names, size, int(refuse), *limits)
        return found

    def _streams(self, account: Account, process: str, own: int, shared: int, refuse: str) -> int:
        limits = [_or_none(of.open_streams) for of in (account.own, _shared(account))]
        if not any(limits):
            return 0
        names, lease = _pair(self._keys, account, "streams"), int(STREAM_LEASE * 1000)
        return int(self._scripts.run("caller_streams", names, process, own, shared, *limits, lease, refuse))


class RedisOpenTasks:
    """Open tasks in sorted sets, of a caller and of its tenant."""

    def __init__(self, scripts: Scripts, keys: Keys) -> None:
        self._scripts = scripts
        self._keys = keys

    def add(self, account: Account, task_id: str, size: int = 0) -> LimitReached | None:
        """Add the task with its bytes, unless a limit is reached.

        Idempotent: a task that is there already is never refused. One task alone may have more bytes than the limit.
        """
        both = (account.own, _shared(account))
        limits = [_or_none(getattr(of, name)) for name in _TASK_LIMITS for of in both]
        if not any(limits):
            return None
        index = int(self._scripts.run("caller_task_add", self._names(account), task_id, size, *limits, TASKS_TTL))
        if not index:
            return None
        return LimitReached(_limit_name(_TASK_LIMITS[(index - 1) // 2], 2 - index % 2), TASK_RETRY)

    def least_recently_checked(self, account: Account, limit: int) -> list[tuple[str, float]]:
        """Return tasks of each set, with the seconds since each was added or checked. Cost: O(limit)."""
        with translating_errors(), self._scripts.client.pipeline(transaction=False) as pipe:
            for name in _pair(self._keys, account, "tasks"):
                pipe.zrange(name, 0, limit - 1, withscores=True)
            pages: Any = pipe.execute()
        now = time.time()
        return list({str(task): now - at / 1000 for page in pages for task, at in page}.items())

    def remove(self, account: Account, task_ids: Sequence[str]) -> None:
        """Remove the tasks from both sets."""
        if task_ids:
            self._scripts.run("caller_task_remove", self._names(account), *task_ids)

    def _names(self, account: Account) -> list[str]:
        return [*_pair(self._keys, account, "tasks"), *_pair(self._keys, account, "task_bytes")]

    def mark_checked(self, account: Account, task_ids: Sequence[str]) -> None:
        """Move the tasks behind the others. One that was removed meanwhile stays so."""
        if task_ids:
            now = time.time() * 1000
            with translating_errors(), self._scripts.client.pipeline(transaction=False) as pipe:
                for name in _pair(self._keys, account, "tasks"):
                    pipe.zadd(name, dict.fromkeys(task_ids, now), xx=True)
                pipe.execute()


def _pair(keys: Keys, account: Account, name: str) -> list[str]:
    return [keys.caller(account.tenant, account.by, name), keys.tenant_of_callers(account.tenant, name)]


def _shared(account: Account) -> Any:
    """Return the limits of the tenant; those of no tenant are unlimited."""
    return account.shared if account.tenant else type(account.shared)()


def _or_none(limit: int | None) -> int | str:
    return "" if limit is None else limit


def _limit_name(name: str, index: int) -> str:
    return name if index == 1 else f"tenant_{name}"
