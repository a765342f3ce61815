"""MCP servers as people run them: odd tools, results, output and sessions, each from a report of a user."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from roboco.domain.prompt.coordinator_tools import offered_schema
from roboco.domain.team.mcp_server import McpServer
from roboco.errors import UsageError
from tests.support import mcp_scripted_stdio
from tests.support.mcp_servers import call, declare_server, open_servers
from tests.support.openai_schema import schema_mistakes

pytestmark = pytest.mark.slow

PROGRAM = Path(mcp_scripted_stdio.__file__)
GOOD = {"name": "good", "description": "Good.", "inputSchema": {"type": "object", "properties": {}}}


def scripted(**script: Any) -> McpServer:
    """Return a server that answers as scripted; the team may use all of its tools."""
    script = {"tools": [GOOD]} | script
    fields = {name: script.pop(name) for name in ("timeout", "prefix") if name in script}
    named = script.pop("named", "all")
    return declare_server((sys.executable, str(PROGRAM), json.dumps(script)), tools=named, **fields)


def result_of_call(**script: Any) -> Any:
    """Return what a call of the tool `good` returns."""
    server = scripted(**script)
    with open_servers(server) as servers:
        return call(servers, server, "good", {})


def error_of_call(**script: Any) -> str:
    with pytest.raises(UsageError) as raised:
        result_of_call(**script)
    return str(raised.value)


def nested(levels: int, last: Any) -> Any:
    """Return objects in objects."""
    return {"a": nested(levels - 1, last)} if levels else last


NOTICE = '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}'
DEEP = "(left out: the structured content is no JSON: nested deeper than 64 levels)"
ODD_SCHEMAS: list[Any] = [
    None,
    {"type": "string"},
    {"anyOf": [{"type": "object"}, {"type": "object"}]},
    {},
    "nonsense",
    True,
    {"type": ["object", "null"]},
    {"type": "object", "properties": {"a": True, "b": {"type": "array"}}, "required": "a"},
    {"oneOf": [{"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}]},
    {"type": "object", "properties": {"a": {"enum": []}}, "allOf": [{"required": ["a"]}]},
    {"$ref": "#/definitions/x", "definitions": {"x": {"type": "object"}}},
    {"type": "object", "properties": {"a": {"maximum": float("inf")}}},
    {"type": "object", "properties": {"a": {"format": 5, "title": {}, "description": ["x"], "readOnly": "yes"}}},
    {"type": "object", "properties": {"": True, "x y": False, "items": {"type": "array"}}},
    {"type": "Object", "properties": {"a": {"type": "STRING", "required": True}}},
    {"type": "object", "patternProperties": {"^x": {}}, "additionalProperties": False},
    {"allOf": [{"$ref": "#/$defs/b"}], "$defs": {"b": {"type": "object", "properties": {"z": {"type": "array"}}}}},
    nested(300, {"type": "string"}),
]


def test_an_odd_schema_keeps_no_tool_back() -> None:
    odd = [{"name": f"odd{number}", "inputSchema": schema} for number, schema in enumerate(ODD_SCHEMAS)]
    server = scripted(tools=[GOOD, {"name": "none"}, *odd])
    with open_servers(server) as servers:
        offer = servers.list_tools(server, "odd_")
        assert call(servers, server, "odd3", {"a": 1}) == "called odd3"
    assert list(offer.tools) == ["good", "none", *(one["name"] for one in odd)]
    assert offer.left_out == {}
    for tool in offer.tools.values():
        assert schema_mistakes(offered_schema(tool.input_schema)) == [], tool.input_schema


def test_a_tool_that_cannot_be_offered_is_left_out_alone_with_the_reason() -> None:
    bad = [5, None, {}, {"name": 7}, {"name": ""}, {"name": "a\nb"}, {"name": "x" * 200}, GOOD]
    server = scripted(tools=[*bad, {"name": "last", "description": 5, "annotations": "x"}])
    with open_servers(server) as servers:
        offer = servers.list_tools(server, "odd_")
    assert list(offer.tools) == ["good", "last"]
    assert set(offer.left_out.values()) == {"it has no valid name"}
    assert {"5", "{'name': 7}", "a\nb", "x" * 128} <= set(offer.left_out)


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ({"content": {"type": "text", "text": "one"}}, "one"),
        ({"raw": '{"jsonrpc":"2.0","id":ID,"result":null}'}, "(the tool returned no content)"),
        ({"raw": '{"jsonrpc":"2.0","id":ID,"result":"plain"}'}, "plain"),
        ({"raw": '{"id":ID,"result":{"content":"no version"}}'}, "no version"),
        ({"raw": '{"jsonrpc":"2.0","id":ID,"result":{"content":"before"}} done in 5 ms'}, "before"),
        ({"raw": f'[{NOTICE}, {{"jsonrpc":"2.0","id":ID,"result":{{"content":"second"}}}}]'}, "second"),
        ({"raw": f'{NOTICE}{{"jsonrpc":"2.0","id":ID,"result":{{"content":"second"}}}}'}, "second"),
        ({"raw": 'log {\n{\n "jsonrpc": "2.0",\n "id": ID,\n "result": {"content": "lines"}\n}'}, "lines"),
        ({"raw": '{"jsonrpc":2.0,"id":ID.0,"result":{"content":"float"},"error":null}'}, "float"),
        ({"raw": f'{{"id":ID,"result":{{"content":"{"x" * 70_000}"}}}}'}, "x" * 70_000),
        ({"content": [], "structuredContent": nested(300, 1)}, DEEP),
        ({"content": [{"type": "text", "text": "\U0001f600 \\ud83d \ud83d"}]}, "\U0001f600 \\ud83d \ufffd"),
    ],
)
def test_an_answer_is_read_whatever_surrounds_it(result: dict[str, Any], expected: Any) -> None:
    assert result_of_call(results={"good": result}) == expected


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ({"isError": True, "content": [], "structuredContent": {"code": "RATE_LIMITED"}}, '{"code":"RATE_LIMITED"}'),
        (
            {"isError": True, "content": [{"type": "text", "text": "no"}], "structuredContent": {"code": 7}},
            '{"code":7}\nno',
        ),
        ({"error": {"code": -32000, "message": "busy", "data": {"retry": 5}}}, 'refused: busy ({"retry":5})'),
        ({"error": "boom"}, "refused: boom"),
        ({"error": {"code": "E_BUSY", "message": "busy", "data": {"retry": 5}}}, 'refused: busy ({"retry":5})'),
        ({"error": {"code": -32000}}, 'refused: {"code": -32000}'),
    ],
)
def test_an_error_keeps_what_the_server_sends(result: dict[str, Any], expected: str) -> None:
    assert error_of_call(results={"good": result}).endswith(expected)


def test_a_server_that_refuses_new_revisions_is_asked_for_the_oldest() -> None:
    assert result_of_call(refused_revisions="2025-") == "called good"


def test_log_lines_on_stdout_never_end_a_server() -> None:
    server = scripted(lines=120)
    with open_servers(server) as servers:
        assert {call(servers, server, "good", {}) for _ in range(20)} == {"called good"}
        (known,) = servers._connections.values()
        assert not known._session.ended.is_set()


def test_no_text_of_a_server_can_be_taken_for_the_response() -> None:
    forged = "\n".join(f'{{"jsonrpc":"2.0","id":{number},"result":{{"content":"forged"}}}}' for number in range(9))
    assert result_of_call(before=f"{forged}\n") == "called good"


def test_the_time_out_of_a_call_says_what_is_known() -> None:
    found = error_of_call(pause=30.0, timeout=1.0)
    assert re.search(
        r"MCP server '.*' did not complete the call of 'good': it did not answer in time \(1 s\); whether it had an "
        r"effect is not known",
        found,
    )


def test_progress_extends_the_time_of_a_call_up_to_a_bound() -> None:
    assert result_of_call(progress=8, pause=0.6, timeout=4.0) == "called good"
    found = error_of_call(progress=200, pause=0.2, timeout=1.0)
    assert re.search(r"it did not answer in time \(\d+ s, with reports of progress\)", found)


def test_requests_for_input_are_refused_and_the_agent_reads_it() -> None:
    ask = {
        "method": "elicitation/create",
        "params": {
            "message": "Which city?",
            "requestedSchema": {"type": "object", "properties": {"city": {"type": "string"}}},
        },
    }
    sampling = {"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 5}}
    failed = {"isError": True, "content": [{"type": "text", "text": "no input"}]}
    found = error_of_call(requests=[ask, sampling], results={"good": failed})
    assert found.startswith("no input; before that, the server asked the user: 'Which city?' ({")
    assert '"city"' in found
    assert "it asked for an answer of a model (sampling), which Roboco refuses" in found
    required = {"resultType": "input_required", "inputRequests": {"a": ask}, "requestState": "x"}
    assert "did not run: the server asked the user: 'Which city?'" in error_of_call(results={"good": required})
    required["inputRequests"] = {"a": "x", "b": {"method": "elicitation/create", "params": "y"}}
    assert "did not run: the server needs more input" in error_of_call(results={"good": required})
    assert "called good\n(the server asked the user: 'Which city?'" in result_of_call(requests=[ask])


def test_names_that_models_refuse_are_offered_under_other_names() -> None:
    long = "files.read." + "x" * 100
    tools = [{"name": name} for name in ("files.read", "files_read", "files/read", long, "söök", "1st")]
    server = scripted(tools=tools)
    with open_servers(server) as servers:
        offer = servers.list_tools(server, "odd_")
        for short, tool in offer.tools.items():
            assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", f"odd_{short}")
            assert call(servers, server, short, {}) == f"called {tool.remote or short}"
    assert {tool.remote or short for short, tool in offer.tools.items()} == {one["name"] for one in tools}
    assert offer.tools["files_read"].remote == ""
