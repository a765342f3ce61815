"""Teams: every field of a team file, and its default."""

from typing import Any

import pytest

from roboco.domain.team.collaboration import Graph
from roboco.domain.team.context_policy import RecentContext
from roboco.domain.team.team import Team
from roboco.domain.team.validation import validate_team

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


def test_the_example_of_the_design_is_a_team() -> None:
    team = validate_team(DESIGN)
    writer, critic = team.agents
    assert (team.name, team.description) == ("writer-critic", "drafts a text and reviews it")
    assert (writer.tools, writer.handoffs) == (("memory_search", "artifact_write", "web_search"), ("critic",))
    assert critic.context == RecentContext(steps=12)
    assert team.tools[0].model_dump() == {
        "name": "web_search",
        "function": "shop.search:web_search",
        "description": None,
        "effect": "pure",
        "on_unknown": "tell",
        "approval": "never",
        "timeout": 20,
        "price": 0.0,
        "retry": None,
        "expires": None,
        "on_expiry": "deny",
        "remind": None,
    }
    assert (team.limits.max_steps, team.limits.max_tokens, team.limits.max_seconds) == (60, 200000, 1800)
    assert team.profile(writer).temperature == 0.4
    assert team.models["local"].api_key_env == "LOCAL_KEY"
    assert isinstance(team.collaboration_model, Graph)
    assert [edge.to for edge in team.collaboration_model.routing_graph["critic"]] == ["END", "writer", "USER"]


@pytest.mark.parametrize(
    ("edges", "targets"),
    [
        ("critic", ["critic"]),
        (["critic", "END"], ["critic", "END"]),
        ({"to": "critic"}, ["critic"]),
        ([{"to": "critic"}, "USER"], ["critic", "USER"]),
        ([], []),
    ],
)
def test_an_edge_may_be_just_a_name(edges: Any, targets: list[str]) -> None:
    model = {"type": "graph", "routing_graph": {"writer": edges}}
    team = validate_team(DESIGN | {"collaboration_model": model})
    assert isinstance(team.collaboration_model, Graph)
    assert [edge.to for edge in team.collaboration_model.routing_graph["writer"]] == targets


@pytest.mark.parametrize(
    ("contexts", "tail"), [([{}], 40), ([{"steps": 5}], 20), ([{"steps": 90}, {}], 90), ([{"strategy": "budget"}], 200)]
)
def test_the_tail_is_as_long_as_the_longest_memory(contexts: list[dict[str, Any]], tail: int) -> None:
    agents = [{"name": f"a{n}", "prompt": "hi", "context": context} for n, context in enumerate(contexts)]
    assert validate_team({"name": "solo", "agents": agents}).tail_length == tail


def test_a_frozen_team_is_read_back_the_same() -> None:
    whole = DESIGN | {
        "collaboration_model": {
            "type": "graph",
            "routing_graph": {
                "writer": [
                    {"to": "critic", "when": {"not": {"any": [{"contains": "a"}, {"matches": "b+"}]}}},
                    {"to": "END", "when": {"all": [{"tool_called": "web_search"}, {"metadata": {"a.b": 1}}]}},
                    {"to": "USER", "when": {"tool_failed": "web_search", "artifact": "*.md"}, "max_times": 2},
                ]
            },
        }
    }
    team = validate_team(whole)
    assert Team.model_validate_json(team.model_dump_json(by_alias=True, exclude_none=True)) == team
