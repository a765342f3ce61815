"""McpServer: the fields of an MCP server in a team file."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from roboco.domain.team.mcp_server import MAX_SERVER_TOOLS, McpServer
from roboco.domain.url import url_error

COMMAND: dict[str, Any] = {"command": ["python", "-m", "shop.files_server"], "tools": ["search", "read"]}
WEB: dict[str, Any] = {"url": "https://mcp.example.com/mcp", "tools": {"search": {"effect": "pure"}, "buy": {}}}


def validation_error(data: dict[str, Any]) -> str:
    with pytest.raises(ValidationError) as raised:
        McpServer.model_validate(data)
    return str(raised.value)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"tools": ["a"]}, "needs either a command or a url"),
        (COMMAND | WEB, "needs either a command or a url"),
        ({"command": [], "tools": ["a"]}, "at least 1 item"),
        ({"command": [""], "tools": ["a"]}, "must begin with a program"),
        ({"command": ["a\0b"], "tools": ["a"]}, "zero bytes"),
        (COMMAND | {"tools": []}, "at least 1 item"),
        (COMMAND | {"tools": "some"}, "should be 'all'"),
        (COMMAND | {"tools": 5}, "valid dictionary"),
        (COMMAND | {"tools": "all", "prefix": ""}, "an empty prefix needs the tools to be named"),
        (COMMAND | {"tools": ["a", "a"]}, "'a' is named twice"),
        (COMMAND | {"tools": ["a" * 129]}, "should match pattern"),
        (COMMAND | {"tools": ["a\n"]}, "should match pattern"),
        (COMMAND | {"tools": [f"t{number}" for number in range(MAX_SERVER_TOOLS + 1)]}, "at most 200 items"),
        (COMMAND | {"tools": {"a": {"effect": "harmless"}}}, "'pure', 'idempotent' or 'irreversible'"),
        (COMMAND | {"tools": {"a": {"efect": "pure"}}}, "Extra inputs"),
        (COMMAND | {"headers": {"A": "B"}}, "headers are for a url"),
        (WEB | {"env": ["A"]}, "env is for a command"),
        (COMMAND | {"env": ["A=B"]}, "should match pattern"),
        (WEB | {"headers": {"Authorization": "Bearer abc"}}, "should match pattern"),
        (WEB | {"headers": {"A": "B", "a": "C"}}, "named twice"),
        (WEB | {"headers": {"Host": "B"}}, "belongs to the protocol"),
        (WEB | {"headers": {"Mcp-Session-Id": "B"}}, "belongs to the protocol"),
        (WEB | {"headers": {"A: b\r\nC": "B"}}, "should match pattern"),
        (COMMAND | {"prefix": "p" * 60}, "must be a letter and up to 63 letters"),
        (COMMAND | {"timeout": 0}, "greater than 0"),
        (COMMAND | {"connect_timeout": 301}, "less than or equal to 300"),
    ],
)
def test_an_invalid_server_is_refused(data: dict[str, Any], message: str) -> None:
    assert message in validation_error(data)


def test_an_ambiguous_url_is_refused() -> None:
    assert "url" in validation_error(WEB | {"url": "https://mcp.example.com/a/../b"})


@pytest.mark.parametrize("url", ["http://127.0.0.1:8000/mcp", "https://[::1]:8000/mcp?tenant=a%20b", "https://mcp"])
def test_a_valid_url_is_accepted(url: str) -> None:
    assert McpServer.model_validate(WEB | {"url": url}).url == url


@given(st.text(max_size=40))
def test_any_text_as_a_url_is_accepted_or_refused(text: str) -> None:
    url_error(text)
    url_error(f"https://mcp.example.com/{text}")
    url_error(f"https://{text}")


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
