"""The usage of tenants and of callers by day in Redis. All keys of a tenant have one hash tag, and expire."""

from typing import Any, Final

from roboco.domain.ids import tenant_of
from roboco.domain.usage import DayUsage
from roboco.redis.keys import Keys
from roboco.redis.scripts import Scripts, translating_errors

TTL: Final = 2 * 86_400
"""Seconds for which the sums of a day are kept after their last change."""


class RedisDayUsages:
    """A hash of sums for each day, of a tenant or caller, and another one with the usage of each task of a tenant."""

    def __init__(self, scripts: Scripts, keys: Keys) -> None:
        self._scripts = scripts
        self._keys = keys

    def count(self, task_id: str, by: str | None, steps: int, used: DayUsage) -> None:
        """Replace the usage of the task, unless a newer one is stored. Cost: one script."""
        tenant, day = tenant_of(task_id), used.day
        names = [self._keys.tenant_of_callers(tenant, f"usage:tasks:{day}"), self._sums(tenant, day, None)]
        names += [self._sums(tenant, day, by)] if by else []
        self._scripts.run("day_usage_count", names, task_id, TTL, steps, used.tokens, used.cost_billionths)

    def spent(self, tenant: str, day: str, by: str | None = None) -> DayUsage:
        """Return the usage of the day. Cost: one HMGET."""
        with translating_errors():
            found: Any = self._scripts.client.hmget(self._sums(tenant, day, by), ["tokens", "billionths"])
        return DayUsage(day=day, tokens=int(found[0] or 0), cost_billionths=int(found[1] or 0))

    def _sums(self, tenant: str, day: str, by: str | None) -> str:
        name = f"usage:spent:{day}"
        return self._keys.caller(tenant, by, name) if by else self._keys.tenant_of_callers(tenant, name)
