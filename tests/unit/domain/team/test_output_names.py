"""Fields of outputs that a team names, against the schemas of these outputs."""

from typing import Any

import pytest

from roboco.domain.team.output_names import absent_names
from roboco.domain.team.team import Team
from roboco.errors import InvalidTeam
from roboco.team_files.file import parse_team

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


def mistakes_of(team: dict[str, Any]) -> tuple[str, ...]:
    try:
        parse_team(team)
    except InvalidTeam as error:
        return error.mistakes
    return ()


def warnings_of(team: dict[str, Any]) -> list[str]:
    return list(absent_names(Team.model_validate(team), certain=False))


@pytest.mark.parametrize(
    ("team", "expected"),
    [
        (team_of(CLOSED, {"output": {"mor": True}}), f"{EDGE}.output: the output of agent 'planner' has no 'mor' here"),
        (team_of(CLOSED, {"not": {"any": [{"output": {"b": 1}}]}}), f"{EDGE}.not.any[0].output: the output"),
        (team_of(PLAN, {"all": [{"output": {"inner.b": 1}}]}), f"{EDGE}.all[0].output: the output of agent 'planner'"),
        (team_of(PLAN, {"output": {"more.b": 1}}), f"{EDGE}.output: the output of agent 'planner' has no 'b' here"),
        (team_of({"enum": [1], "type": "integer"}, {"output": {"a": 1}}), f"{EDGE}.output: the output of agent"),
        (team_of(CLOSED | {"allOf": [{"properties": {"b": {}}}]}, {"output": {"b": 1}}), f"{EDGE}.output: the output"),
        (team_of(None, {"output": {"a": 1}}), f"{EDGE}.output: agent 'planner' has no output"),
        (team_of(CLOSED, state=["more", "moer"]), "agents[0].state: the output of agent 'planner' has no 'moer' here"),
    ],
)
def test_a_name_that_no_output_can_have_is_a_mistake(team: dict[str, Any], expected: str) -> None:
    found = mistakes_of(team)
    assert len(found) == 1
    assert found[0].startswith(expected)
    assert warnings_of(team) == []
    assert mistakes_of({"name": "outer", "agents": [{"name": "a", "prompt": "x"}], "teams": {"t": team}}) == (
        f"teams.t.{found[0]}",
    )


@pytest.mark.parametrize(
    ("output", "name", "more"),
    [
        (PLAN, "mor", {}),
        (CLOSED, "mor", {"function": "shop:plan", "prompt": None}),
    ],
)
def test_a_name_that_the_schema_does_not_declare_is_a_warning(output: object, name: str, more: dict[str, Any]) -> None:
    team = team_of(output, {"output": {name: 1}}, **more)
    assert mistakes_of(team) == ()
    text = "the output of agent 'planner' has no 'mor' here, declared are 'searches', 'more', 'inner'"
    assert warnings_of(team) == [f"{EDGE}.output: {text}"]


@pytest.mark.parametrize(
    ("output", "when", "more"),
    [
        (CLOSED, {"output": {"more": True, "inner.a": 1, "inner.a.b": 2}}, {}),
        (CLOSED, {"output": {"absent": None}}, {}),
        (CLOSED, {"state": {"absent": 1}}, {}),
        (CLOSED, {"output": {"absent": 1}}, {"validate": "shop_types:check"}),
        (PLAN | {"additionalProperties": {"type": "string"}}, {"output": {"absent": 1}}, {}),
        (PLAN | {"anyOf": [{"required": ["absent"]}]}, {"output": {"absent": 1}}, {}),
        ({"type": "object"}, {"output": {"absent": 1}}, {}),
        ({"$ref": "#/$defs/p", "$defs": {"p": PLAN}}, {"output": {"absent": 1}}, {}),
        ("shop_types:Plan", {"output": {"absent": 1}}, {}),
        (None, {"output": {"absent": 1}}, {"pydantic_ai": "shop:agent", "prompt": None}),
    ],
)
def test_a_name_that_an_output_may_have_is_neither(output: object, when: object, more: dict[str, Any]) -> None:
    team = team_of(output, when, **more)
    assert mistakes_of(team) == ()
    assert warnings_of(team) == []


@pytest.mark.parametrize(
    ("over", "expected"),
    [
        ("output.planner.searches", ""),
        ("output.planner.search", "agents[1].map.over: the output of agent 'planner' has no 'search' here"),
        ("output.finder.text", "agents[1].map.over: the output of agent 'finder' has no 'text' here, it declares no"),
        ("output.finder", ""),
        ("state.anything", ""),
    ],
)
def test_the_list_of_a_map_is_compared_too(over: str, expected: str) -> None:
    team = team_of(CLOSED)
    team["agents"].append({"name": "finder", "map": {"over": over, "team": "t"}})
    team["teams"] = {"t": {"name": "t", "agents": [{"name": "a", "prompt": "x"}]}}
    found = mistakes_of(team)
    assert bool(found) == bool(expected)
    assert all(mistake.startswith(expected) for mistake in found)
