"""tenant_budget: a tenant's budget of a day: each step is counted before Redis has it, and each turn is checked.

    step stored in the workspace ─► counted (once, by its position) ─► committed in Redis ─► next turn: checked
                                                                                              └── used up: it waits
If a worker dies between two of these, the coordinator that applies the step counts it: a repetition changes nothing.
If Redis is emptied, each open task is counted again as it is rebuilt; what tasks had used on that day that have ended
before is lost. Turns that run at the same time may exceed the budget, each by its own usage.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from roboco.domain.history.step import TaskStep
from roboco.domain.ids import tenant_of
from roboco.domain.task_usage import BILLION, day_of, step_usage
from roboco.domain.tenant_budget import BUDGET_WAIT, TenantBudgets
from roboco.ports.clock import Clock
from roboco.ports.tenant_spending import StepSpending, TenantSpending

MAX_WAIT: Final = 300.0
"""Seconds after which a turn that waits for its tenant's budget checks it again: it may have been raised."""


@dataclass(frozen=True)
class DayBudgets:
    """The budgets of tenants, and what their tasks have used today."""

    budgets: TenantBudgets
    spending: TenantSpending
    clock: Clock

    def count(self, task_id: str, steps: Iterable[TaskStep]) -> None:
        """Count steps for the budget of the task's tenant, if it has one. A repetition is harmless.

        Raise TransientError if Redis does not answer: then the steps are not committed, and are counted later.
        """
        if self.budgets.of(tenant_of(task_id)) is None:
            return
        by_day: dict[str, list[StepSpending]] = defaultdict(list)
        for step in steps:
            cells = list(step_usage(task_id, step, ""))
            tokens = sum(cell.tokens_in + cell.tokens_out for cell in cells)
            cost = sum(cell.cost_billionths for cell in cells)
            if tokens or cost:
                by_day[day_of(step.created_at)].append(StepSpending(step.seq, tokens, cost))
        for day, spent in by_day.items():
            self.spending.count(task_id, day, spent)

    def count_today(self, task_id: str, steps: Iterable[TaskStep]) -> None:
        """Count the steps of today, as a task is rebuilt after a loss of Redis."""
        today = day_of(self._now())
        self.count(task_id, (step for step in steps if day_of(step.created_at) == today))

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
