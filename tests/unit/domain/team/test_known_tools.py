"""known_tools: the tools that a team names, compared with those that its servers list."""

from typing import Any

from roboco.domain.team.known_tools import missing_tools_error
from roboco.domain.team.team import Team
from roboco.domain.team.validation import validate_team


def team(server: dict[str, Any], *tools: str, limits: tuple[str, ...] = ()) -> Team:
    """Return a team with one server, `shop`, and an agent with these tools."""
    return validate_team(
        {
            "name": "t",
            "agents": [{"name": "a", "prompt": "x", "tools": list(tools)}],
            "mcp_servers": {"shop": {"command": ["x"]} | server},
            "limits": {"tools": {name: {"max_calls": 1} for name in limits}},
        }
    )


def test_missing_tools_are_those_that_are_named_anywhere() -> None:
    assert missing_tools_error(team({"tools": ["find", "buy"]}, "mcp:shop"), "shop", ["find", "buy"]) == ""
    assert missing_tools_error(team({}, "mcp:shop"), "shop", []) == ""
    expected = (
        "MCP server 'shop' has no tool 'serch', which team 't' names; it lists: 'find', 'search'; correct the name"
    )
    assert missing_tools_error(team({"tools": ["find", "serch"]}), "shop", ["find"], ["search"]).startswith(expected)
    assert "no tool 'serch'" in missing_tools_error(team({}, "mcp:shop", "shop_serch"), "shop", ["find"])
    assert "no tool 'serch'" in missing_tools_error(team({}, "mcp:shop", limits=("shop_serch",)), "shop", ["find"])
