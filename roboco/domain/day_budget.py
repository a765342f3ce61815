"""DayBudget: the limits of a tenant or caller for a day (UTC), and TenantBudgets of the operator."""

import re
from dataclasses import dataclass
from typing import Final, NamedTuple

from roboco.domain.usage import DayUsage
from roboco.errors import UsageError

OTHERS: Final = "*"
"""The name for each tenant without an entry."""
BUDGET_WAIT: Final = "or once the budget is raised"
"""A part of the reason of a task whose turn waits for the budget of its tenant."""
_ENTRY: Final = re.compile(
    r"(?P<tenant>\*|[a-z0-9][a-z0-9_-]{0,31})=(?P<cost>\d{1,9}(?:\.\d{1,9})?)?(?:/(?P<tokens>\d{1,15}))?"
)


class UsedUp(NamedTuple):
    """A part of a budget that is used up."""

    limit: str
    """Its name, as `CallerLimits` names it."""
    text: str


@dataclass(frozen=True)
class DayBudget:
    """The limits of the tasks of a tenant or caller for a day. None is no limit."""

    cost: float | None = None
    """Money in the currency of the prices."""
    tokens: int | None = None
    """Input and output tokens together."""

    def reached(self, used: DayUsage) -> UsedUp | None:
        """Return which part of the budget is used up, or None."""
        if self.tokens is not None and used.tokens >= self.tokens:
            return UsedUp("tokens_per_day", f"has used {used.tokens} tokens today, its budget is {self.tokens}")
        if self.cost is not None and used.cost >= self.cost:
            return UsedUp("cost_per_day", f"has cost {used.cost:g} today, its budget is {self.cost:g}")
        return None


class TenantBudgets:
    """The budgets of ROBOCO_TENANT_BUDGETS. A task without a tenant has none."""

    def __init__(self, entries: tuple[str, ...] = ()) -> None:
        self._budgets = dict(map(parse_budget, entries))

    def of(self, tenant: str) -> DayBudget | None:
        """Return the budget of the tenant, or None if it has none."""
        return self._budgets.get(tenant, self._budgets.get(OTHERS)) if tenant else None


def parse_budget(entry: str) -> tuple[str, DayBudget]:
    """Return the tenant and the budget of `TENANT=COST/TOKENS`. Raise UsageError if the entry has another form."""
    found = _ENTRY.fullmatch(entry)
    if found is None or not (found["cost"] or found["tokens"]):
        raise UsageError(
            f"{entry!r} is no budget: write TENANT=COST/TOKENS, TENANT=COST or TENANT=/TOKENS; * is each other tenant"
        )
    cost, tokens = found["cost"], found["tokens"]
    return found["tenant"], DayBudget(float(cost) if cost else None, int(tokens) if tokens else None)
