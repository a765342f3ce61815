"""The usage of tenants by day in Redis, for their budgets. All keys of a tenant have one hash tag, and expire."""

from collections.abc import Sequence
from itertools import chain
from typing import Any, Final

from roboco.adapters.redis.keys import Keys
from roboco.adapters.redis.scripts import Scripts, translating_errors
from roboco.domain.ids import tenant_of
from roboco.ports.tenant_spending import StepSpending

TTL: Final = 2 * 86_400
"""Seconds for which the sums of a day are kept after their last change."""
BATCH: Final = 500
"""Steps that one script adds."""


class RedisTenantSpending:
    """Sums in a hash for each day, and the newest counted step of each task in another one."""

    def __init__(self, scripts: Scripts, keys: Keys) -> None:
        self._scripts = scripts
        self._keys = keys

    def count(self, task_id: str, day: str, steps: Sequence[StepSpending]) -> None:
        """Add the steps that are not counted yet. Cost: one script for each 500 steps."""
        tenant = tenant_of(task_id)
        names = [self._keys.tenant_of_callers(tenant, f"usage:{kind}:{day}") for kind in ("budget", "counted")]
        for start in range(0, len(steps), BATCH):
            numbers = chain.from_iterable(steps[start : start + BATCH])
            self._scripts.run("budget_count", names, task_id, TTL, *numbers)

    def spent(self, tenant: str, day: str) -> tuple[int, int]:
        """Return the tokens and billionths. Cost: one HMGET."""
        with translating_errors():
            name = self._keys.tenant_of_callers(tenant, f"usage:budget:{day}")
            found: Any = self._scripts.client.hmget(name, ["tokens", "billionths"])
        return int(found[0] or 0), int(found[1] or 0)
