"""TenantBudgets: the operator's budgets of tenants for a day (UTC)."""

import re
from dataclasses import dataclass
from typing import Final

from roboco.errors import UsageError

OTHERS: Final = "*"
"""The name for each tenant without an entry."""
BUDGET_WAIT: Final = "or once the budget is raised"
"""A part of the reason of a task whose turn waits for the budget of its tenant."""
_ENTRY: Final = re.compile(
    r"(?P<tenant>\*|[a-z0-9][a-z0-9_-]{0,31})=(?P<cost>\d{1,9}(?:\.\d{1,9})?)?(?:/(?P<tokens>\d{1,15}))?"
)


@dataclass(frozen=True)
class TenantBudget:
    """What the tasks of a tenant may use in a day. None is no limit."""

    cost: float | None = None
    """Money in the currency of the prices."""
    tokens: int | None = None
    """Input and output tokens together."""

    def reached(self, cost: float, tokens: int) -> str:
        """Return which part of the budget is used up, or ""."""
        if self.cost is not None and cost >= self.cost:
            return f"has cost {cost:g} today, its budget is {self.cost:g}"
        if self.tokens is not None and tokens >= self.tokens:
            return f"has used {tokens} tokens today, its budget is {self.tokens}"
        return ""


class TenantBudgets:
    """The budgets of ROBOCO_TENANT_BUDGETS. A task without a tenant has none."""

    def __init__(self, entries: tuple[str, ...] = ()) -> None:
        self._budgets = dict(map(parse_budget, entries))

    def of(self, tenant: str) -> TenantBudget | None:
        """Return the budget of the tenant, or None if it has none."""
        return self._budgets.get(tenant, self._budgets.get(OTHERS)) if tenant else None


def parse_budget(entry: str) -> tuple[str, TenantBudget]:
    """Return the tenant and the budget of `TENANT=COST/TOKENS`. Raise UsageError if the entry has another form."""
    found = _ENTRY.fullmatch(entry)
    if found is None or not (found["cost"] or found["tokens"]):
        raise UsageError(
            f"{entry!r} is no budget: write TENANT=COST/TOKENS, TENANT=COST or TENANT=/TOKENS; * is each other tenant"
        )
    cost, tokens = found["cost"], found["tokens"]
    return found["tenant"], TenantBudget(float(cost) if cost else None, int(tokens) if tokens else None)
