"""The names of MCP servers' tools: models accept each, two never collide, and a team file may use either."""

import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from roboco.domain.team.server_tool_names import short_names
from roboco.domain.team.team import Team
from roboco.domain.team.validation import validate_team

NAMES = st.lists(st.text("ab._/ -é1", min_size=1, max_size=90), unique=True, max_size=20)


@given(NAMES, st.sampled_from(["", "odd_", "p" * 50]))
def test_short_names_are_possible_and_differ(names: list[str], prefix: str) -> None:
    found = short_names(prefix, tuple(names))
    assert len(set(found.values())) == len(found)
    assert all(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]{0,63}", prefix + short) for short in found.values())
    if len(prefix) < 50:
        assert set(found) == set(names)


def test_a_possible_name_stays_and_others_get_a_digest_if_they_collide() -> None:
    found = short_names("odd_", ("files.read", "files_read", "time.now"))
    assert (found["files_read"], found["time.now"]) == ("files_read", "time_now")
    assert re.fullmatch(r"files_read_[0-9a-f]{8}", found["files.read"])


def team(server: dict[str, Any], *tools: str, **fields: Any) -> Team:
    """Return a team with the server `odd`, and an agent with these tools."""
    agent = {"name": "a", "prompt": "x", "tools": list(tools)}
    data = {"name": "t", "agents": [agent], "mcp_servers": {"odd": {"command": ["x"]} | server}}
    return validate_team(data | fields)


def test_a_team_may_name_a_tool_as_its_server_does() -> None:
    for server in ({}, {"tools": ["files.read"]}, {"tools": {"files_read": {"effect": "pure"}}}):
        for name in ("odd_files.read", "odd_files_read"):
            if "files_read" in server.get("tools", ()) and name == "odd_files.read":
                continue  # this team knows the tool by its short name alone
            found = team(server, name, limits={"tools": {name: {"max_calls": 1}}})
            assert found.agents[0].tools == ("odd_files_read",)
            assert list(found.limits.tools) == ["odd_files_read"]
            assert found.may_call(found.agents[0], "odd_files_read")
            spec = found.tool("odd_files_read")
            assert spec is not None
            assert spec.name == "odd_files_read"
