"""tenant_budget: a tenant's budget of a day: each turn counts before its commit, and each pass what Redis holds.

    turn's step stored ─► usage of its task on this day ─► committed in Redis ─► next turn: checked
    pass loads the task ──► (set, if it is newer)                                └── used up: it waits

The state of a task holds what it has used on the day, as a fold of its history. So a count carries the whole usage of
the task, and not that of a step: a repetition, a late one and one after any loss in Redis are right. Redis may be
emptied between a count and the write of the task: then the task is rebuilt, and the pass that loads it counts it again.
The usage of tasks that have ended before is lost. Turns that run at the same time may exceed the budget, each by its
own usage.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from roboco.domain.history.state import TaskState
from roboco.domain.ids import tenant_of
from roboco.domain.tenant_budget import BUDGET_WAIT, TenantBudgets
from roboco.domain.usage import BILLION, day_of
from roboco.ports.clock import Clock
from roboco.ports.tenant_spending import StateUsage, TenantSpending

MAX_WAIT: Final = 300.0
"""Seconds after which a turn that waits for its tenant's budget checks it again: it may have been raised."""


@dataclass(frozen=True)
class DayBudgets:
    """The budgets of tenants, and what their tasks have used today."""

    budgets: TenantBudgets
    spending: TenantSpending
    clock: Clock

    def count(self, task_id: str, state: TaskState) -> None:
        """Count the usage of the task's day for the budget of its tenant, if it has one. A repetition is harmless.

        Count nothing if the usage is that of an earlier day. Raise TransientError if Redis does not answer: then the
        step is not committed, or the pass is repeated. Cost: one script, for a tenant with a budget.
        """
        used = state.day_usage
        if self.budgets.of(tenant_of(task_id)) is not None and used.day >= day_of(self._now()):
            self.spending.count(task_id, used.day, StateUsage(state.steps, used.tokens, used.cost_billionths))

    def wait(self, task_id: str, agent: str) -> tuple[float, str] | None:
        """Return for how many seconds a turn waits for the tenant's budget, and why, or None if it can run.

        Cost: one HMGET if the tenant has a budget, else nothing.
        """
        tenant, now = tenant_of(task_id), self._now()
        if (budget := self.budgets.of(tenant)) is None:
            return None
        tokens, cost = self.spending.spent(tenant, day_of(now))
        if not (why := budget.reached(cost / BILLION, tokens)):
            return None
        tomorrow = datetime.combine(now.date() + timedelta(days=1), datetime.min.time(), UTC)
        seconds = min(MAX_WAIT, (tomorrow - now).total_seconds() + 1.0)
        until = f"{tomorrow:%Y-%m-%d %H:%M} UTC"
        return seconds, f"{agent} waits: tenant {tenant} {why}; it continues at {until}, {BUDGET_WAIT}"

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self.clock.now(), UTC)
