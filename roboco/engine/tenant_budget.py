"""tenant_budget: a tenant's budget of a day: each step is counted before Redis has it, and each turn is checked.

    step stored in the workspace ─► counted (once, by its position) ─► committed in Redis ─► next turn: checked
                                                                                              └── used up: it waits
If a worker dies between two of these, the coordinator that applies the step counts it: a repetition changes nothing.
If Redis is emptied, each open task is counted again as it is rebuilt; what tasks had used on that day that have ended
before is lost. Turns that run at the same time may exceed the budget, each by its own usage.
"""

from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

from roboco.domain.history.step import TaskStep
from roboco.domain.ids import tenant_of
from roboco.domain.task_usage import BILLION, day_of, step_usage
from roboco.engine.engine import Engine
from roboco.ports.tenant_spending import StepSpending

MAX_WAIT: Final = 300.0
"""Seconds after which a turn that waits for its tenant's budget checks it again: it may have been raised."""


def count_steps(engine: Engine, task_id: str, steps: Iterable[TaskStep]) -> None:
    """Count steps for the budget of the task's tenant, if it has one. A repetition is harmless.

    Raise TransientError if Redis does not answer: then the steps are not committed, and are counted later.
    """
    if engine.policy.budgets.of(tenant_of(task_id)) is None:
        return
    by_day: dict[str, list[StepSpending]] = defaultdict(list)
    for step in steps:
        cells = list(step_usage(task_id, step, ""))
        tokens = sum(cell.tokens_in + cell.tokens_out for cell in cells)
        cost = sum(cell.cost_billionths for cell in cells)
        if tokens or cost:
            by_day[day_of(step.created_at)].append(StepSpending(step.seq, tokens, cost))
    for day, spent in by_day.items():
        engine.tenant_spending.count(task_id, day, spent)


def count_today(engine: Engine, task_id: str, steps: Iterable[TaskStep]) -> None:
    """Count the steps of today, as a task is rebuilt after a loss of Redis."""
    today = day_of(engine.now())
    count_steps(engine, task_id, (step for step in steps if day_of(step.created_at) == today))


def budget_wait(engine: Engine, task_id: str, agent: str) -> tuple[float, str] | None:
    """Return for how many seconds a turn waits for the tenant's budget, and why, or None if it can run.

    Cost: one HMGET if the tenant has a budget, else nothing.
    """
    tenant, now = tenant_of(task_id), engine.now()
    if (budget := engine.policy.budgets.of(tenant)) is None:
        return None
    tokens, cost = engine.tenant_spending.spent(tenant, day_of(now))
    if not (why := budget.reached(cost / BILLION, tokens)):
        return None
    tomorrow = datetime.combine(now.date() + timedelta(days=1), datetime.min.time(), UTC)
    seconds = min(MAX_WAIT, (tomorrow - now).total_seconds() + 1.0)
    until = f"{tomorrow:%Y-%m-%d %H:%M} UTC"
    return seconds, f"{agent} waits: tenant {tenant} {why}; it continues at {until}, or once the budget is raised"
