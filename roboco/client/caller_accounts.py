"""caller_accounts: the counts of callers of the HTTP gateway: requests, streams, open tasks, and usage of the day."""

from typing import Final

from roboco.domain.day_budget import DayBudget
from roboco.domain.usage import DayUsage, day_of
from roboco.engine.engine import Engine
from roboco.ports.refusals import RefusedWrites
from roboco.redis.caller_limits import Accepted, Account, LimitReached, RedisCallerCounts, RedisOpenTasks
from roboco.redis.keys import Keys
from roboco.redis.scripts import Scripts

__all__ = ["Accepted", "Account", "CallerAccounts", "LimitReached", "RedisCallerCounts", "RefusedWrites"]

CHECKED_TASKS: Final = 500
"""Tasks of a caller that are checked at a time, once it has reached its limit."""
MAX_TASK_BYTES: Final = 160 * 1024
"""Bytes that count of a task: Redis keeps no more of it, whatever its request had."""
UNKNOWN_SECONDS: Final = 600.0
"""Seconds after which a task counts as ended that the task index does not know: it was never accepted, or long ago."""


class CallerAccounts:
    """Blocking calls, each of one or a few round trips to Redis. They raise TransientError if it does not answer."""

    counts: RedisCallerCounts
    """The requests, bytes and streams."""

    def __init__(self, engine: Engine, scripts: Scripts, keys: Keys) -> None:
        self.counts = RedisCallerCounts(scripts, keys)
        self._open_tasks = RedisOpenTasks(scripts, keys)
        self._engine = engine

    def add_task(self, account: Account, task_id: str, size: int) -> LimitReached | None:
        """Count an open task, unless a limit is reached. If it is, first remove tasks that have ended.

        `size` is that of the request which creates it.
        """
        size = min(size, MAX_TASK_BYTES)
        refused = self._open_tasks.add(account, task_id, size)
        return self._open_tasks.add(account, task_id, size) if refused and self._remove_ended(account) else refused

    def remove_task(self, account: Account, task_id: str) -> None:
        """Stop counting a task that was not accepted."""
        self._open_tasks.remove(account, [task_id])

    def usage_today(self, account: Account) -> tuple[DayUsage, DayUsage]:
        """Return the usage of the caller, and that of its tenant. Note the caller's limits, which workers apply."""
        spent, today = self._engine.services.rate_limiter.spent, day_of(self._engine.now())
        if (own := account.own).tokens_per_day or own.cost_per_day:
            limits = DayBudget(own.cost_per_day, own.tokens_per_day)
            self._engine.services.rate_limiter.note_limits(account.tenant, account.by, limits)
        return spent(account.tenant, today, account.by), spent(account.tenant, today)

    def _remove_ended(self, account: Account) -> bool:
        """Remove tasks that have ended, as the task index knows. Return True if there are any."""
        tasks = self._open_tasks.least_recently_checked(account, CHECKED_TASKS)
        states = self._engine.tasks.task_index.ended([task_id for task_id, _ in tasks])
        found = [(task_id, state, age) for (task_id, age), state in zip(tasks, states, strict=True)]
        ended = [task_id for task_id, state, age in found if state or (state is None and age > UNKNOWN_SECONDS)]
        self._open_tasks.remove(account, ended)
        self._open_tasks.mark_checked(account, [task_id for task_id, state, _ in found if state is False])
        return bool(ended)
