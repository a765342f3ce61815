"""budget: the most that a caller's task may use.

A task of the gateway gets the smaller of its team's limits and its caller's budget. Its caller may lower its limits,
but not raise them beyond the budget.
"""

from typing import Final

from roboco.domain.limits import LimitOverrides, UsageLimits
from roboco.domain.team.team import Team
from roboco.gateway.principal import Principal, Scope
from roboco.gateway.problem import forbidden

_FIELDS: Final = tuple(UsageLimits.model_fields)


def default_limits(caller: Principal) -> LimitOverrides:
    """Return the budget of each task of the caller. A field that is None is no limit."""
    return LimitOverrides.model_validate(caller.limits.task_limits())


def within_budget(team: Team, budget: LimitOverrides) -> Team:
    """Return the team with each limit lowered to the budget. A team within the budget is returned as it is."""
    limits = team.limits
    lower = {
        name: most
        for name in _FIELDS
        if (most := getattr(budget, name)) is not None and _exceeds(getattr(limits, name), most)
    }
    return team.model_copy(update={"limits": limits.model_copy(update=lower)}) if lower else team


def check_within_budget(caller: Principal, wanted: LimitOverrides, budget: LimitOverrides) -> None:
    """Raise Problem `forbidden` if a new limit exceeds the caller's budget. An operator may raise every limit."""
    if Scope.OPERATE in caller.scopes:
        return
    for name in sorted(wanted.model_fields_set.intersection(_FIELDS)):
        most = getattr(budget, name)
        if most is not None and _exceeds(getattr(wanted, name), most):
            raise forbidden(f"{name}: tasks of this key may have {most:g} at most", f"set at most {most:g}")


def _exceeds(limit: float | None, most: float) -> bool:
    return limit is None or limit > most
