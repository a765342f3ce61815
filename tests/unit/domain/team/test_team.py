"""Teams: every field of a team file, and its default."""

from typing import Any

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
