"""Limits of callers in memory: requests, bytes, streams, open tasks, and usage of a day."""

from collections.abc import Sequence

from roboco.domain.access_key import CallerLimits
from roboco.domain.ids import tenant_of
from roboco.domain.usage import DayUsage
from roboco.ports.caller_limits import Accepted, Account, LimitReached
from roboco.ports.clock import Clock
from tests.support.memory_ports.server import MemoryServer

LEASE = 30.0
MAX_DEBT = 600.0


class MemoryCallerCounts:
    """Counts by the generic cell rate algorithm."""

    def __init__(self, server: MemoryServer, clock: Clock) -> None:
        self._server = server
        self._clock = clock

    def admit(self, account: Account, size: int) -> Accepted | LimitReached:
        """Count a request, unless a limit is reached."""
        now, first = self._clock.now(), None
        with self._server as held:
            paid: dict[tuple[str, str, str], float] = {}
            for key, prefix, limits in _both(account):
                requests, of_bytes = limits.requests_per_minute, limits.bytes_per_minute
                if requests is not None:
                    at = max(now, held.paid.get((*key, "requests"), 0.0)) + 60 / requests
                    if at > now + 60 + 1e-6:
                        return LimitReached(f"{prefix}requests_per_minute", at - now - 60)
                    paid[(*key, "requests")] = at
                    if not prefix:
                        first = int((now + 60 + 1e-6 - at) * requests / 60)
                if of_bytes is not None:
                    at = max(now, held.paid.get((*key, "bytes"), 0.0))
                    if at >= now + 60:
                        return LimitReached(f"{prefix}bytes_per_minute", at - now - 60)
                    paid[(*key, "bytes")] = min(at + size * 60 / of_bytes, max(at, now + MAX_DEBT))
            held.paid |= paid
        seconds = paid.get((account.tenant, account.by, "requests"), now) - now
        return Accepted(first, seconds)

    def charge(self, account: Account, size: int) -> None:
        """Count bytes that a request did not announce."""
        now = self._clock.now()
        with self._server as held:
            for key, _, limits in _both(account):
                if limits.bytes_per_minute is not None:
                    at = max(now, held.paid.get((*key, "bytes"), 0.0))
                    owed = at + size * 60 / limits.bytes_per_minute
                    held.paid[(*key, "bytes")] = min(owed, max(at, now + MAX_DEBT))

    def hold_streams(self, account: Account, process: str, own: int, shared: int) -> LimitReached | None:
        """Lease streams to the process, unless a limit is reached."""
        now = self._clock.now()
        with self._server as held:
            for (key, prefix, limits), count in zip(_both(account), (own, shared), strict=False):
                others = (
                    one for name, (one, until) in held.streams.get(key, {}).items() if name != process and until > now
                )
                if limits.open_streams is not None and sum(others) + count > limits.open_streams:
                    return LimitReached(f"{prefix}open_streams", 5.0)
        self.renew_streams(account, process, own, shared)
        return None

    def renew_streams(self, account: Account, process: str, own: int, shared: int) -> None:
        """Renew the lease with these numbers."""
        with self._server as held:
            for (key, _, _), count in zip(_both(account), (own, shared), strict=False):
                held.streams.setdefault(key, {})[process] = (count, self._clock.now() + LEASE)


class MemoryOpenTasks:
    """Open tasks by the time of their last check."""

    def __init__(self, server: MemoryServer, clock: Clock) -> None:
        self._server = server
        self._clock = clock

    def add(self, account: Account, task_id: str, size: int = 0) -> LimitReached | None:
        """Add the task, unless a limit is reached."""
        with self._server as held:
            for key, prefix, limits in _both(account):
                known = held.open_tasks.get(key, {})
                total = sum(held.open_bytes.get(one, 0) for one in known)
                if limits.open_tasks is not None and task_id not in known and len(known) >= limits.open_tasks:
                    return LimitReached(f"{prefix}open_tasks", 10.0)
                if limits.open_bytes is not None and task_id not in known and 0 < total > limits.open_bytes - size:
                    return LimitReached(f"{prefix}open_bytes", 10.0)
            held.open_bytes[task_id] = max(size, held.open_bytes.get(task_id, 0))
            for key, _, limits in _both(account):
                if limits.open_tasks is not None or limits.open_bytes is not None:
                    held.open_tasks.setdefault(key, {})[task_id] = self._clock.now()
        return None

    def least_recently_checked(self, account: Account, limit: int) -> list[tuple[str, float]]:
        """Return at most `limit` tasks of each, with the seconds since the last check."""
        now, found = self._clock.now(), dict[str, float]()
        with self._server as held:
            for key, _, _ in _both(account):
                oldest = sorted(held.open_tasks.get(key, {}).items(), key=lambda one: one[1])[:limit]
                found |= {task_id: now - at for task_id, at in oldest}
        return list(found.items())

    def remove(self, account: Account, task_ids: Sequence[str]) -> None:
        """Remove the tasks."""
        with self._server as held:
            for key, _, _ in _both(account):
                for task_id in task_ids:
                    held.open_tasks.get(key, {}).pop(task_id, None)

    def mark_checked(self, account: Account, task_ids: Sequence[str]) -> None:
        """Move the tasks behind the others."""
        with self._server as held:
            for key, _, _ in _both(account):
                known = held.open_tasks.get(key, {})
                known |= {task_id: self._clock.now() for task_id in task_ids if task_id in known}


class MemoryDayUsages:
    """Usage by task and day, with the caller that created the task."""

    def __init__(self, server: MemoryServer) -> None:
        self._server = server

    def count(self, task_id: str, by: str | None, steps: int, used: DayUsage) -> None:
        """Replace the usage of the task, unless a newer one is stored."""
        with self._server as held:
            stored = held.day_usages.get((task_id, used.day))
            if stored is None or stored[1] < steps:
                held.day_usages[task_id, used.day] = (by, steps, used)

    def spent(self, tenant: str, day: str, by: str | None = None) -> DayUsage:
        """Return the usage of the day."""
        with self._server as held:
            known = [(tenant_of(task_id), one) for (task_id, at), one in held.day_usages.items() if at == day]
        used = [used for of, (creator, _, used) in known if of == tenant and by in (None, creator)]
        tokens, cost = sum(one.tokens for one in used), sum(one.cost_billionths for one in used)
        return DayUsage(day=day, tokens=tokens, cost_billionths=cost)


def _both(account: Account) -> list[tuple[tuple[str, str], str, CallerLimits]]:
    """Return the caller and its tenant: their key, the prefix of their limits' names, and their limits."""
    own = ((account.tenant, account.by), "", account.own)
    return [own, ((account.tenant, ""), "tenant_", account.shared)] if account.tenant else [own]
