"""The team of a drill: stand-ins and the drill's model server, and all else as the user declared it."""

from typing import Any

import pytest

from roboco import Team, UsageError, parse_team
from roboco.cli.doctor.server_tools import ListingResult, TeamServer
from roboco.domain.team.tool_listing import ListedTool
from roboco.lab.drill.drilled_team import Replacement, check_real_tools
from roboco.lab.drill.weaknesses import find_weaknesses
from roboco.tools.function_loader import FunctionLoader
from roboco.tools.mcp.listing import ListedTools

TOOLS = "tests.unit.lab.drill.drilled_tools"
FUNCTIONS = FunctionLoader((TOOLS,))
SERVER = "http://127.0.0.1:1"
DATA: dict[str, Any] = {
    "name": "shop",
    "models": {"small": {"model": "m", "base_url": "https://models.example/v1", "requests_per_minute": 3}},
    "agents": [
        {"name": "clerk", "prompt": "You are {{ agent.name }}.", "tools": ["pay", "mcp:lib", "artifact_read"]},
        {"name": "boss", "prompt": "boss", "tools": ["lib_look", "mcp:other"]},
    ],
    "tools": [{"name": "pay", "function": f"{TOOLS}:pay", "timeout": 30}],
    "mcp_servers": {
        "lib": {"command": ["lib"], "tools": {"look": {"effect": "pure"}, "write": {"approval": "required"}}},
        "other": {"command": ["other"]},
    },
}
TEAM = parse_team(DATA)


def replaced(team: Team = TEAM, *, real: frozenset[str] = frozenset(), listed: bool = True) -> tuple[Team, Replacement]:
    offer = ListedTools({"look": ListedTool(description="Look.", input_schema={"type": "object"}, effect="pure")})
    listing = ListingResult(TeamServer(team, "lib"), offer)
    listings = {(id(team), "lib"): listing} if listed else {}
    replacement = Replacement(SERVER, real, FUNCTIONS, listings)
    return replacement.apply(team), replacement


def test_prompts_stay_and_models_are_the_drills() -> None:
    team, _ = replaced()
    assert [agent.prompt for agent in team.agents] == [agent.prompt for agent in TEAM.agents]
    profile = team.profile(team.agent("clerk"))
    assert profile.base_url == f"{SERVER}/shop/clerk/v1"
    assert profile.model == "m"
    assert profile.api_key_env is None
    assert profile.requests_per_minute is None
    assert parse_team(team.model_dump(mode="json")) == team


def test_an_unknown_real_tool_is_a_usage_error() -> None:
    assert check_real_tools(TEAM, ["pay", "mcp:lib"]) == {"pay", "mcp:lib"}
    with pytest.raises(UsageError, match="no tool 'refund', possible are mcp:lib, mcp:other, pay"):
        check_real_tools(TEAM, ["refund"])


def codes(changes: dict[str, Any]) -> list[tuple[str, str]]:
    team = parse_team(DATA | changes)
    return [(one.code, one.place) for one in find_weaknesses(team, FUNCTIONS)]


def test_weaknesses_of_a_careless_team() -> None:
    tools = [{"name": "pay", "function": f"{TOOLS}:pay"}, {"name": "mail", "function": f"{TOOLS}:send_mail"}]
    agents = [
        {"name": "a", "prompt": "a", "context": {"steps": 300}, "tools": ["pay"]},
        {"name": "b", "prompt": "b", "context": {"strategy": "budget", "tokens": 500_000}},
    ]
    graph = {"type": "graph", "routing_graph": {"a": ["b"], "b": [{"to": "a", "when": {"contains": "x"}}, "END"]}}
    changes = {"tools": tools, "agents": agents, "collaboration_model": graph, "mcp_servers": {}}
    assert codes(changes) == [
        ("no_timeout", "tools[0] pay"),
        ("no_verify", "tools[0] pay"),
        ("no_timeout", "tools[1] mail"),
        ("no_limits", "limits"),
        ("no_limits", "models.small"),
        ("growing_context", "agents[0].context"),
        ("growing_context", "agents[1].context"),
        ("no_limits", "collaboration_model"),
    ]


def test_a_careful_team_has_no_weaknesses() -> None:
    tools = [{"name": "mail", "function": f"{TOOLS}:send_mail", "timeout": 5}]
    agents = [{"name": "a", "prompt": "a", "tools": ["mail"]}]
    graph = {"type": "graph", "routing_graph": {"a": [{"to": "a", "max_times": 2}, "END"]}}
    limits = {"max_tokens": 1000}
    changes = {"tools": tools, "agents": agents, "collaboration_model": graph, "mcp_servers": {}, "limits": limits}
    assert codes(changes) == []
