"""The usage of tenants by day in Redis, for their budgets. All keys of a tenant have one hash tag, and expire."""

from typing import Any, Final

from roboco.adapters.redis.keys import Keys
from roboco.adapters.redis.scripts import Scripts, translating_errors
from roboco.domain.ids import tenant_of
from roboco.ports.tenant_spending import StateUsage

TTL: Final = 2 * 86_400
"""Seconds for which the sums of a day are kept after their last change."""


class RedisTenantSpending:
    """A hash of sums for each day, and another one with the usage of each task."""

    def __init__(self, scripts: Scripts, keys: Keys) -> None:
        self._scripts = scripts
        self._keys = keys

    def count(self, task_id: str, day: str, used: StateUsage) -> None:
        """Replace the usage of the task, unless a newer one is stored. Cost: one script."""
        names = [
            self._sums(tenant_of(task_id), day),
            self._keys.tenant_of_callers(tenant_of(task_id), f"usage:tasks:{day}"),
        ]
        self._scripts.run("budget_count", names, task_id, TTL, *used)

    def spent(self, tenant: str, day: str) -> tuple[int, int]:
        """Return the tokens and billionths. Cost: one HMGET."""
        with translating_errors():
            found: Any = self._scripts.client.hmget(self._sums(tenant, day), ["tokens", "billionths"])
        return int(found[0] or 0), int(found[1] or 0)

    def _sums(self, tenant: str, day: str) -> str:
        return self._keys.tenant_of_callers(tenant, f"usage:spent:{day}")
