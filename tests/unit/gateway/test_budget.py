"""The budget of a caller's tasks."""

from dataclasses import replace

import pytest

from roboco.domain.access_key import CallerLimits
from roboco.domain.limits import LimitOverrides, Limits
from roboco.gateway.budget import check_within_budget, limited_team
from roboco.gateway.principal import LOCAL, Principal, Scope
from roboco.gateway.problem import Problem
from tests.support.memory_ports.world import team_of

TEAM = team_of(agents=[{"name": "a", "prompt": "p"}], limits={"max_steps": 10, "max_cost": 5, "at_limit": "pause"})
CALLER = Principal("key:a", "acme", frozenset({Scope.CONTROL}))


def caller(**limits: float) -> Principal:
    """Return a caller whose tasks have these limits."""
    return replace(CALLER, limits=CallerLimits.model_validate(limits))


def test_a_team_gets_the_smaller_limits() -> None:
    found = limited_team(caller(max_steps=3, max_cost=9, max_tokens=100), TEAM).limits
    assert found == Limits(max_steps=3, max_cost=5, max_tokens=100, at_limit="pause")


def test_a_team_within_the_budget_stays_as_it_is() -> None:
    assert limited_team(CALLER, TEAM) is TEAM
    assert limited_team(caller(max_steps=10), TEAM) is TEAM


@pytest.mark.parametrize("wanted", [{"max_steps": 11}, {"max_steps": None}])
def test_a_caller_cannot_raise_a_limit_beyond_the_budget(wanted: dict[str, int | None]) -> None:
    limits = LimitOverrides.model_validate(wanted)
    with pytest.raises(Problem) as found:
        check_within_budget(caller(max_steps=10), limits)
    assert found.value.status == 403
    check_within_budget(replace(LOCAL, limits=CallerLimits(max_steps=10)), limits)
    check_within_budget(caller(max_steps=10), LimitOverrides(max_steps=10, max_cost=99))
