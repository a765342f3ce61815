"""Mistakes in a team file: all in one error, each with its path, the value found and the possible ones."""

import copy
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roboco.domain.team.team import Team
from roboco.domain.team.validation import validate_team
from roboco.engine.workspace_records import serialize_team
from roboco.errors import InvalidTeam
from roboco.team_files.file import parse_team

DESIGN: dict[str, Any] = {
    "name": "writer-critic",
    "description": "drafts a text and reviews it",
    "models": {
        "standard": {"model": "gpt-4o-mini", "temperature": 0.4, "default": True},
        "local": {"model": "gemma", "base_url": "http://127.0.0.1:8080/v1", "api_key_env": "LOCAL_KEY"},
    },
    "collaboration_model": {
        "type": "graph",
        "initial_agent": "writer",
        "routing_graph": {
            "writer": [{"to": "critic"}],
            "critic": [
                {"to": "END", "when": {"contains": "APPROVED"}},
                {"to": "writer", "max_times": 3},
                {"to": "USER"},
            ],
        },
    },
    "agents": [
        {
            "name": "writer",
            "description": "writes",
            "prompt": "You write.",
            "model": "standard",
            "tools": ["memory_search", "artifact_write", "web_search"],
            "handoffs": ["critic"],
        },
        {"name": "critic", "prompt": "You review.", "context": {"strategy": "recent", "steps": 12}},
    ],
    "tools": [{"name": "web_search", "function": "shop.search:web_search", "effect": "pure", "timeout": 20}],
    "limits": {"max_steps": 60, "max_tokens": 200000, "max_seconds": 1800},
}


def mistakes(data: object) -> tuple[str, ...]:
    with pytest.raises(InvalidTeam) as raised:
        validate_team(data, "team.yaml")
    assert raised.value.source == "team.yaml"
    assert str(raised.value) == "\n".join(f"team.yaml: {mistake}" for mistake in raised.value.mistakes)
    return raised.value.mistakes


def change_example(path: str, value: object) -> dict[str, Any]:
    """Return the example of the design with one value replaced, or removed if `value` is `...`."""
    return _changed(DESIGN, path, value)


def _changed(team: dict[str, Any], path: str, value: object) -> dict[str, Any]:
    data = copy.deepcopy(team)
    *keys, last = [int(key) if key.isdigit() else key for key in path.split("/")]
    place: Any = data
    for key in keys:
        place = place[key]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return data


@pytest.mark.parametrize(
    ("path", "value", "where", "expected"),
    [
        ("name", "1 team", "name", "'1 team'"),
        ("agents", ..., "agents", "is missing"),
        ("agents/0/prompt", ..., "agents[0].prompt", "needs prompt, prompt_file, function, pydantic_ai or map"),
        (
            "agents/0/function",
            "shop.triage",
            "agents[0].function",
            "with a colon before the function (found 'shop.triage'",
        ),
        ("agents/0/output", "shop.Plan", "agents[0].output", 'write a JSON Schema, or "package.module:NAME"'),
        (
            "agents/0/map",
            {"over": "{{ output.p.x }}", "team": "x"},
            "agents[0].map.over",
            "write output.AGENT, output.",
        ),
        ("agents/0/handoffs", "critic", "agents[0].handoffs", "write a list: [critic]"),
        ("tools/0/retry", {"on": "ConnectionError"}, "tools[0].retry.on", "write a list: [ConnectionError]"),
        ("tools/0/expires", "2 hours", "tools[0].expires", "write seconds, or 90s, 30m, 2h, 1d (found '2 hours')"),
        ("memory", {"of": "user"}, "memory.of", "write tenant or context.NAME, such as context.user"),
        ("memory", "tenant", "memory", "write {of: tenant} (found 'tenant')"),
        ("guards", ["polite"], "guards", "write {input: [...]} (found ['polite'])"),
        ("guards", {"input": ["x"], "on_refusal": "sorry"}, "guards.on_refusal", "write end, or {answer: TEXT}"),
        ("agents/1/name", "user", "agents[1].name", "'user' is reserved"),
        ("agents/0/model", "big", "agents[0].model", "no profile 'big', possible are 'standard', 'local'"),
        ("utility_model", "big", "utility_model", "no profile 'big', possible are 'standard', 'local'"),
        ("agents/0/tools", ["web"], "agents[0].tools[0]", "no tool 'web', possible are 'web_search', 'artifact_list'"),
        ("agents/0/tools", ["handoff"], "agents[0].tools[0]", "name the agents under 'handoffs'"),
        ("agents/0/handoffs", ["editor"], "agents[0].handoffs[0]", "no other agent 'editor', possible are 'critic'"),
        ("agents/0/tools", ["delegate"], "agents[0].tools[0]", "name the teams under 'delegates'"),
        ("tools/0/approval", {"any": [{}]}, "tools[0].approval.any[0]", "tests nothing"),
        ("tools/0/name", "client_ask", "tools[0].name", "for tools that the client runs"),
        ("teams", {"x": {"name": "x", "agents": []}}, "teams.x.agents", "at least 1 agent"),
        (
            "teams",
            {"x": {"name": "x", "agents": [{"name": "a", "prompt": "p", "tools": ["none"]}]}},
            "teams.x.agents[0].tools[0]",
            "no tool 'none'",
        ),
        (
            "models/standard/api_key",
            "sk-1",
            "models.standard.api_key",
            "keys are no part of a team file: use {credential: NAME}",
        ),
        ("models/local/default", True, "models", "'standard', 'local' are all marked as default, only one can be"),
        ("models/standard/default", False, "agents[1].model", "possible are 'standard', 'local'"),
        ("collaboration_model/type", "round", "collaboration_model", "found 'round', possible are 'sequential', 'man"),
        (
            "collaboration_model/initial_agent",
            "x",
            "collaboration_model.initial_agent",
            "no agent 'x', possible are 'wr",
        ),
        (
            "collaboration_model/routing_graph/editor",
            ["critic"],
            "collaboration_model.routing_graph.editor",
            "no agent 'editor', possible are 'writer', 'critic'",
        ),
        (
            "collaboration_model/routing_graph/writer",
            [{"to": "editor"}],
            "collaboration_model.routing_graph.writer[0].to",
            "no agent 'editor', possible are 'writer', 'critic', 'END', 'USER'",
        ),
        (
            "collaboration_model/routing_graph/critic/0/when",
            {"not": {"any": [{"tool_failed": "web"}]}},
            "collaboration_model.routing_graph.critic[0].when.not.any[0].tool_failed",
            "no tool 'web', possible are 'web_search'",
        ),
        (
            "collaboration_model/routing_graph/critic/0/when",
            {},
            "collaboration_model.routing_graph.critic[0].when",
            "an empty condition: use one of contains, matches, tool_called",
        ),
        ("tools/0/name", "memory_search", "tools[0].name", "'memory_search' is reserved"),
    ],
)
def test_a_mistake_names_its_path(path: str, value: object, where: str, expected: str) -> None:
    found = [mistake for mistake in mistakes(change_example(path, value)) if mistake.startswith(f"{where}: ")]
    assert len(found) == 1, mistakes(change_example(path, value))
    assert expected in found[0]


@pytest.mark.parametrize(
    ("servers", "expected"),
    [
        (
            {"web": {}, "web_x": {"tools": ["a"]}},
            "mcp_servers.web: 'web_x_a' begins with 'web_', as all of this server's",
        ),
        ({"web": {}, "web_x": {}}, "mcp_servers.web: all tools of 'web_x' begin with 'web_', as this server's do"),
        ({"art": {"prefix": "artifact"}}, "mcp_servers.art: 'artifact_list' begins with 'artifact', as all of this"),
        ({"c": {"prefix": "cl"}}, "mcp_servers.c: names that begin with 'client_' or 'achieve_' are not for servers"),
        ({"own": {}}, "mcp_servers.own: 'own_add' begins with 'own_', as all of this server's tools do"),
    ],
)
def test_a_server_that_allows_all_tools_cannot_take_another_tools_name(servers: dict[str, Any], expected: str) -> None:
    data = {
        "name": "t",
        "agents": [{"name": "a", "prompt": "x"}],
        "tools": [{"name": "own_add", "function": "shop:add"}],
        "mcp_servers": {name: {"command": ["x"]} | server for name, server in servers.items()},
    }
    (mistake,) = mistakes(data)
    assert mistake.startswith(expected)


WORDS = [
    *("name", "agents", "models", "tools", "limits", "collaboration_model", "prompt", "handoffs", "context", "steps"),
    *("type", "graph", "manual", "sequential", "custom", "router", "rounds", "routing_graph", "initial_agent", "to"),
    *("when", "not", "any", "all", "contains", "matches", "tool_called", "metadata", "max_times", "strategy", "budget"),
    *("model", "default", "function", "effect", "timeout", "max_steps", "a", "b", "END", "USER", "a.b:c", "handoff"),
    *("", "\ud800", "a{999999999999999999}", "(" * 200, "[[a]", "first_token_timeout", "description"),
]
LEAVES = st.sampled_from([*WORDS, None, True, False, 0, 1, -1, 2.5, 10**30, float("inf"), float("nan")])
DATA = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=5),
    max_leaves=12,
)


def read_or_refuse(data: object) -> None:
    """Check that the data is a team that the workspace can store, or raises InvalidTeam."""
    try:
        team = validate_team(data)
    except InvalidTeam as error:
        found = error.mistakes
    else:
        assert Team.model_validate_json(serialize_team(team)) == team
        return
    assert found


@given(DATA)
def test_arbitrary_data_raises_nothing_but_a_team_error(data: object) -> None:
    read_or_refuse(data)


WHEN = "collaboration_model/routing_graph/critic/0/when"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (WHEN, {"all": [{"not": {"any": [{"contains": "a"}, {"matches": "b+"}]}}, {"metadata": {"a.b": 1}}]}),
        (WHEN, {"matches": "a{999999999999999999}"}),
        (WHEN, {"metadata": {"a": "\ud800"}}),
        (WHEN, {"metadata": {"a": float("nan")}}),
        ("models/standard/first_token_timeout", float("inf")),
        ("agents/0/description", "\ud800"),
    ],
)
def test_a_value_is_stored_and_read_back_the_same_or_a_mistake(path: str, value: object) -> None:
    read_or_refuse(change_example(path, value))


@pytest.mark.parametrize("depth", [20, 250, 900])
def test_a_condition_is_nested_as_deeply_as_the_workspace_can_store(depth: int) -> None:
    when: dict[str, Any] = {"contains": "a"}
    for _ in range(depth):
        when = {"not": when}
    read_or_refuse(change_example(WHEN, when))


WHOLE = {
    "name": "t",
    "guards": {"input": ["None", "h"]},
    "models": {
        "one": {"model": "m", "default": True, "fallback": ["two"], "headers": {"A": "B"}},
        "two": {"model": "n"},
    },
    "collaboration_model": {
        "type": "graph",
        "initial_agent": "a",
        "routing_graph": {"a": [{"to": "b", "when": {"any": [{"not": {"tool_called": "add"}}]}}], "b": ["END"]},
    },
    "agents": [
        {"name": "a", "prompt": "p", "tools": ["add", "mcp:s"], "handoffs": ["b"], "delegates": ["h"], "model": "one"},
        {"name": "b", "prompt": "q", "context": {"strategy": "summary", "model": "two"}},
    ],
    "tools": [{"name": "add", "function": "a.b:c", "effect": "pure", "approval": "never"}],
    "mcp_servers": {"s": {"url": "https://example.com/mcp", "tools": {"x": {"effect": "pure"}}}},
    "teams": {"h": {"name": "h", "agents": [{"name": "x", "prompt": "y"}]}},
    "limits": {"agents": {"a": {"max_steps": 1}}, "tools": {"add": {"max_calls": 2}}},
}
ODD_VALUES: tuple[object, ...] = (
    *(None, [], {}, 1, "x", [{}], [[]], [None], {"a": []}, {"name": []}, [{"name": {}}], [{"to": []}]),
)


def _paths(value: object, path: str = "") -> list[str]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [one for key, inner in items for one in (f"{path}/{key}", *_paths(inner, f"{path}/{key}"))]


def test_no_value_at_any_place_is_an_error_of_the_program() -> None:
    """Each value is allowed there, or an InvalidTeam."""
    for path in _paths(WHOLE):
        for value in ODD_VALUES:
            with suppress(InvalidTeam):
                parse_team(_changed(WHOLE, path.strip("/"), value))


def test_an_error_does_not_grow_with_the_product_of_names_and_mistakes() -> None:
    agents = [{"name": "a", "prompt": "x", "handoffs": ["b"] * 300}, {"name": "c" * 10_000, "prompt": "x"}]
    found = mistakes({"name": "team", "agents": agents})
    assert (len(found), found[-1]) == (101, "and more mistakes")
    assert len("".join(found)) < 50_000


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ({"teams": {"u" * 201: {}}}, "a key: has 201 characters, at most 200 are possible"),
        ({"teams": {"u": {"agents": [{}] * 201}}}, "teams.u.agents: 201 are too many, at most 200 are possible"),
        (
            {"mcp_servers": {"s": {"tools": ["t"] * 201}}},
            "mcp_servers.s.tools: 201 are too many, at most 200 are possible",
        ),
    ],
)
def test_a_part_whose_check_would_take_long_is_refused_at_once(part: dict[str, Any], expected: str) -> None:
    assert mistakes(DESIGN | part) == (expected,)


def test_teams_are_nested_in_at_most_ten_levels() -> None:
    team: dict[str, Any] = {"name": "t", "agents": [{"name": "a", "prompt": "x"}]}
    for _ in range(10):
        team = team | {"teams": {"t": team}}
    validate_team(team)
    assert mistakes(team | {"teams": {"t": team}}) == ("teams.t." * 10 + "teams: are nested deeper than 10 levels",)
