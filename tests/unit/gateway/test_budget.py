"""The budget of a caller's tasks."""

import pytest

from roboco.domain.limits import LimitOverrides, Limits
from roboco.gateway.budget import check_within_budget, within_budget
from roboco.gateway.principal import LOCAL, Principal, Scope
from roboco.gateway.problem import Problem
from tests.support.memory_ports.world import team_of

TEAM = team_of(agents=[{"name": "a", "prompt": "p"}], limits={"max_steps": 10, "max_cost": 5, "at_limit": "pause"})
CALLER = Principal("key:a", "acme", frozenset({Scope.CONTROL}))


def test_a_team_gets_the_smaller_limits() -> None:
    found = within_budget(TEAM, LimitOverrides(max_steps=3, max_cost=9, max_tokens=100)).limits
    assert found == Limits(max_steps=3, max_cost=5, max_tokens=100, at_limit="pause")


def test_a_team_within_the_budget_stays_as_it_is() -> None:
    assert within_budget(TEAM, LimitOverrides()) is TEAM
    assert within_budget(TEAM, LimitOverrides(max_steps=10)) is TEAM


@pytest.mark.parametrize("wanted", [{"max_steps": 11}, {"max_steps": None}])
def test_a_caller_cannot_raise_a_limit_beyond_the_budget(wanted: dict[str, int | None]) -> None:
    limits = LimitOverrides.model_validate(wanted)
    with pytest.raises(Problem) as found:
        check_within_budget(CALLER, limits, LimitOverrides(max_steps=10))
    assert found.value.status == 403
    check_within_budget(LOCAL, limits, LimitOverrides(max_steps=10))
    check_within_budget(CALLER, LimitOverrides(max_steps=10, max_cost=99), LimitOverrides(max_steps=10))
