"""Answers with a type over the wire: by a response format, by a tool, and after a server has refused the format."""

import json
from dataclasses import replace
from typing import Any

import pytest

from roboco.model.openai_model import OpenAIModel
from roboco.model.typed_output import answers_by_tool
from roboco.ports.model import Request as ModelRequest
from tests.contract.model.json_requests import TOOLS, request_bodies, script_answers
from tests.contract.model.model_calls import API_KEY, IGNORE_ABANDONED_GENERATORS, make_request, read_reply
from tests.support.servers.model_server import ModelServer, Reply

pytestmark = IGNORE_ABANDONED_GENERATORS
SCHEMA = {
    "type": "object",
    "properties": {"word": {"type": "string", "minLength": 1}},
    "required": ["word"],
}
ANSWER = {"word": "tide"}


def typed_request(*tools: dict[str, Any], **profile: Any) -> ModelRequest:
    return replace(make_request("go", *tools, **profile), output=SCHEMA)


def test_without_tools_the_schema_is_the_response_format(server: ModelServer, model: OpenAIModel) -> None:
    script_answers(server, ANSWER)
    text, reply = read_reply(model.stream(typed_request()))
    assert json.loads(text) == ANSWER
    assert reply.finish_reason == "stop"
    [body] = request_bodies(server)
    described = body["response_format"]["json_schema"]
    assert described["strict"] is True
    assert described["schema"]["properties"] == {"word": {"type": "string"}}
    assert '"minLength": 1' in body["messages"][0]["content"]


def test_a_server_that_refuses_the_format_gets_the_tool(model: OpenAIModel, monkeypatch: pytest.MonkeyPatch) -> None:
    with ModelServer(dialect="deepseek") as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", API_KEY)
        answer = Reply(tool_calls=(("final_answer", ANSWER),))
        server.script(lambda request: answer if request.body.get("tools") else Reply("no idea"))
        texts = [read_reply(model.stream(typed_request(model="deepseek-chat")))[0] for _ in range(2)]
        assert texts[0] == "no idea"
        assert json.loads(texts[1]) == ANSWER
        assert server.take_violations()


@pytest.mark.parametrize(
    ("profile", "tools", "by_tool"),
    [
        ({}, TOOLS, False),
        ({"base_url": "https://shop.openai.azure.com/openai/v1"}, TOOLS, False),
        ({"base_url": "https://openai.azure.com.evil.example/v1"}, TOOLS, True),
        ({"base_url": "http://localhost:11434/v1"}, TOOLS, True),
        ({"base_url": "http://localhost:11434/v1"}, (), False),
        ({"omit": ("response_format",)}, (), True),
        ({"provider": "anthropic"}, (), True),
    ],
)
def test_a_format_is_chosen_where_it_does_not_forbid_calls(
    profile: dict[str, Any], tools: tuple[dict[str, Any], ...], by_tool: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    assert answers_by_tool(typed_request(*tools, **profile), set()) is by_tool
    assert answers_by_tool(typed_request(*tools, **profile), {"response_format"}) is True
