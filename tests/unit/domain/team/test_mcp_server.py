"""McpServer: the fields of an MCP server in a team file."""

from typing import Any

import pytest
from pydantic import ValidationError

from roboco.domain.team.mcp_server import MAX_SERVER_TOOLS, McpServer

COMMAND: dict[str, Any] = {"command": ["python", "-m", "shop.files_server"], "tools": ["search", "read"]}
WEB: dict[str, Any] = {"url": "https://mcp.example.com/mcp", "tools": {"search": {"effect": "pure"}, "buy": {}}}


def validation_error(data: dict[str, Any]) -> str:
    with pytest.raises(ValidationError) as raised:
        McpServer.model_validate(data)
    return str(raised.value)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (COMMAND | WEB, "needs either a command or a url"),
        ({"command": [""], "tools": ["a"]}, "must begin with a program"),
        ({"command": ["a\0b"], "tools": ["a"]}, "zero bytes"),
        (COMMAND | {"tools": "some"}, "should be 'all'"),
        (COMMAND | {"tools": "all", "prefix": ""}, "an empty prefix needs the tools to be named"),
        (COMMAND | {"tools": ["a", "a"]}, "'a' is named twice"),
        (COMMAND | {"tools": ["a\n"]}, "should match pattern"),
        (COMMAND | {"tools": [f"t{number}" for number in range(MAX_SERVER_TOOLS + 1)]}, "at most 200 items"),
        (COMMAND | {"headers": {"A": "B"}}, "headers are for a url"),
        (WEB | {"env": ["A"]}, "env is for a command"),
        (WEB | {"headers": {"Authorization": "Bearer abc"}}, "should match pattern"),
        (WEB | {"headers": {"A": "B", "a": "C"}}, "named twice"),
        (WEB | {"headers": {"Mcp-Session-Id": "B"}}, "belongs to the protocol"),
        (WEB | {"headers": {"A: b\r\nC": "B"}}, "should match pattern"),
        (COMMAND | {"prefix": "p" * 60}, "must be a letter and up to 63 letters"),
    ],
)
def test_an_invalid_server_is_refused(data: dict[str, Any], message: str) -> None:
    assert message in validation_error(data)


@pytest.mark.parametrize("url", ["http://127.0.0.1:8000/mcp", "https://[::1]:8000/mcp?tenant=a%20b", "https://mcp"])
def test_a_valid_url_is_accepted(url: str) -> None:
    assert McpServer.model_validate(WEB | {"url": url}).url == url
    assert "url" in validation_error(WEB | {"url": f"{url}/a/../b".replace("?", "/")})


def test_the_cache_key_depends_on_the_declaration() -> None:
    keys = {
        McpServer.model_validate(data).cache_key
        for data in (COMMAND, WEB, COMMAND | {"timeout": 5}, COMMAND | {"tools": ["search"]}, COMMAND | {"env": ["A"]})
    }
    assert len(keys) == 5
    listed = McpServer.model_validate(COMMAND)
    assert listed.cache_key == McpServer.model_validate(COMMAND | {"tools": {"search": {}, "read": {}}}).cache_key
    assert listed.cache_key == McpServer.model_validate_json(listed.model_dump_json()).cache_key


def test_the_location_is_short_and_has_no_query() -> None:
    assert McpServer.model_validate(WEB | {"url": "https://mcp.example.com/mcp?key=1"}).location == WEB["url"]
    assert len(McpServer.model_validate(COMMAND | {"command": ["a", "b" * 1000]}).location) < 130
