"""Callers and what they reach."""

import pytest

from roboco.gateway.principal import Principal


@pytest.mark.parametrize(
    ("teams", "named", "expected"),
    [
        (None, None, None),
        (None, "desk", {"desk"}),
        ({"lab"}, None, {"lab"}),
        ({"lab"}, "lab", {"lab"}),
        ({"lab"}, "desk", set()),
        (set(), None, set()),
        (set(), "desk", set()),  # a token whose claim of teams is empty
    ],
)
def test_a_list_shows_no_task_of_a_team_that_the_caller_may_not_use(
    teams: set[str] | None, named: str | None, expected: set[str] | None
) -> None:
    caller = Principal("oidc:ann", "acme", frozenset(), None if teams is None else frozenset(teams))
    assert caller.listed_teams(named) == expected
