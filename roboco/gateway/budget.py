"""budget: the most that a caller's task may use.

A task of the gateway gets the smaller of its team's limits and its caller's budget. Its caller may lower its limits,
but not raise them beyond the budget.
"""

from roboco.domain.limits import LimitOverrides
from roboco.domain.team.team import Team
from roboco.gateway.principal import Principal, Scope
from roboco.gateway.problem import forbidden


def limited_team(caller: Principal, team: Team) -> Team:
    """Return the team with each limit lowered to the caller's budget. A team within the budget is returned as it is."""
    limits = team.limits
    lower = {name: most for name, most in caller.limits.task_limits().items() if _exceeds(getattr(limits, name), most)}
    return team.model_copy(update={"limits": limits.model_copy(update=lower)}) if lower else team


def check_within_budget(caller: Principal, wanted: LimitOverrides) -> None:
    """Raise Problem `forbidden` if a new limit exceeds the caller's budget. An operator may raise every limit."""
    if Scope.OPERATE in caller.scopes:
        return
    for name, most in sorted(caller.limits.task_limits().items()):
        if name in wanted.model_fields_set and _exceeds(getattr(wanted, name), most):
            raise forbidden(f"{name}: tasks of this key may have {most:g} at most", f"set at most {most:g}")


def _exceeds(limit: float | None, most: float) -> bool:
    return limit is None or limit > most
