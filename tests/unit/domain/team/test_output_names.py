"""Fields of outputs that a team names, against the schemas of these outputs."""

from typing import Any

import pytest

from roboco.domain.team.output_names import absent_names
from roboco.domain.team.team import Team

PLAN = {
    "type": "object",
    "properties": {
        "searches": {"type": "array"},
        "more": {"type": "boolean"},
        "inner": {"type": ["object", "null"], "properties": {"a": {}}, "additionalProperties": False},
    },
}
CLOSED = PLAN | {"additionalProperties": False}
EDGE = "collaboration_model.routing_graph.planner[0].when"


def team_of(output: object, when: object = None, **more: Any) -> dict[str, Any]:
    """Return a team whose planner has this output, and an edge with this condition."""
    planner = {"name": "planner", "prompt": "x"} | ({} if output is None else {"output": output}) | more
    edge = {"to": "END"} | ({} if when is None else {"when": when})
    return {
        "name": "t",
        "collaboration_model": {"type": "graph", "routing_graph": {"planner": [edge]}},
        "agents": [{key: value for key, value in planner.items() if value is not None}],
    }


def warnings_of(team: dict[str, Any]) -> list[str]:
    return list(absent_names(Team.model_validate(team)))


@pytest.mark.parametrize(
    ("team", "expected"),
    [
        (team_of(CLOSED, {"not": {"any": [{"output": {"b": 1}}]}}), f"{EDGE}.not.any[0].output: the output"),
        (team_of(PLAN, {"output": {"mor": 1}}), f"{EDGE}.output: the output of agent 'planner' has no 'mor' here"),
        (team_of(CLOSED | {"allOf": [{"properties": {"b": {}}}]}, {"output": {"b": 1}}), f"{EDGE}.output: the output"),
        (team_of(None, {"output": {"a": 1}}), f"{EDGE}.output: agent 'planner' has no output"),
        (team_of(CLOSED, state=["more", "moer"]), "agents[0].state: the output of agent 'planner' has no 'moer' here"),
    ],
)
def test_a_name_that_the_schema_does_not_declare_is_a_warning(team: dict[str, Any], expected: str) -> None:
    found = warnings_of(team)
    assert len(found) == 1
    assert found[0].startswith(expected)
    outer = {"name": "outer", "agents": [{"name": "a", "prompt": "x"}], "teams": {"t": team}}
    assert warnings_of(outer) == [f"teams.t.{found[0]}"]


@pytest.mark.parametrize(
    ("output", "when", "more"),
    [
        (CLOSED, {"output": {"more": True, "inner.a": 1, "inner.a.b": 2}}, {}),
        (CLOSED, {"state": {"absent": 1}}, {}),
        (CLOSED, {"output": {"absent": 1}}, {"validate": "shop_types:check"}),
        (PLAN | {"additionalProperties": {"type": "string"}}, {"output": {"absent": 1}}, {}),
        (PLAN | {"anyOf": [{"required": ["absent"]}]}, {"output": {"absent": 1}}, {}),
        ({"$ref": "#/$defs/p", "$defs": {"p": PLAN}}, {"output": {"absent": 1}}, {}),
        ("shop_types:Plan", {"output": {"absent": 1}}, {}),
        (None, {"output": {"absent": 1}}, {"pydantic_ai": "shop:agent", "prompt": None}),
    ],
)
def test_a_name_that_an_output_may_have_is_none(output: object, when: object, more: dict[str, Any]) -> None:
    assert warnings_of(team_of(output, when, **more)) == []


def test_the_list_of_a_map_is_compared_too() -> None:
    team = team_of(CLOSED)
    team["teams"] = {"t": {"name": "t", "agents": [{"name": "a", "prompt": "x"}]}}
    over = ("output.planner.searches", "output.planner.search", "output.f0", "state.anything")
    team["agents"] += [{"name": f"f{n}", "map": {"over": one, "team": "t"}} for n, one in enumerate(over)]
    [found] = warnings_of(team)
    assert found.startswith("agents[2].map.over: the output of agent 'planner' has no 'search' here")
