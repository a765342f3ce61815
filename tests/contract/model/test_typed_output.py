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
from tests.support.servers.model_server import ModelServer, Reply, Request

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


def invalid(words: str, **more: Any) -> dict[str, Any]:
    return {"error": {"message": words, "type": "invalid_request_error"} | more}


def extra(*loc: str) -> dict[str, Any]:
    return {"detail": [{"type": "extra_forbidden", "loc": ["body", *loc], "msg": "Extra inputs are not permitted"}]}


OF_THE_FORMAT = [
    invalid("'response_format.type' must be 'json_object' or 'text'"),
    invalid("This response_format type is unavailable now"),
    invalid("Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model."),
    invalid("This model does not support response format `json_schema`. See supported models"),
    invalid("response_format value as json_schema is enabled only for api versions 2024-08-01-preview and later"),
    invalid("Additional properties are not allowed ('response_format' was unexpected)"),
    {"error": "property 'response_format' is unsupported"},
    {"detail": [{"loc": ["body", "response_format", "type"], "msg": "Input should be 'text' or 'json_object'"}]},
    invalid("structured outputs are not supported by this model"),
    extra("response_format"),
    extra("response_format", "json_schema", "strict"),
]
OF_ITS_SCHEMA = [
    invalid(
        "Invalid schema for response_format 'answer': In context=('properties', 'word'), 'minLength' is not permitted.",
        param="response_format",
    ),
    invalid("invalid JSON schema for response_format: 'answer': /properties/word: `minLength` is not supported"),
    invalid("The provided JSON schema contains features not supported by xgrammar."),
    invalid("Grammar error: Unimplemented keys: ['minLength']"),
    invalid("Invalid JSON payload received. Unknown name 'minLength' at 'generation_config.response_schema'"),
    invalid("The specified schema produces a constraint that has too many states for serving"),
    invalid("response_format: 9000 keywords are not allowed, the limit is 5000"),
    invalid("response_format: recursion is not supported"),
    invalid("response_format could not be processed"),
    invalid("Unsupported keyword 'temperature'"),
    invalid("unexpected 'response_format' is not allowed", param="response_format.json_schema.schema.properties.word"),
    extra("response_format", "json_schema", "schema", "properties"),
]
"""Words of servers about the content of a schema. A tenant may name its fields as parameters."""


@pytest.mark.parametrize(
    ("refusal", "others_send_it"), [*((one, False) for one in OF_THE_FORMAT), *((one, True) for one in OF_ITS_SCHEMA)]
)
def test_only_a_refusal_of_the_format_itself_holds_for_other_schemas(
    server: ModelServer, model: OpenAIModel, refusal: dict[str, Any], others_send_it: bool
) -> None:
    """The refused request is repeated without the format, or without what else the server names."""
    hostile = SCHEMA | {"properties": {"word": {"type": "string"}, "temperature": {"type": "number"}}}

    def reply(request: Request) -> Reply:
        schema = (request.body.get("response_format") or {}).get("json_schema", {})
        refused = "temperature" in json.dumps(schema) and "strict" in schema and "temperature" in request.body
        if refused:
            return Reply(status=400, garbage=json.dumps(refusal).encode())
        return Reply(tool_calls=(("final_answer", ANSWER),)) if request.body.get("tools") else Reply(json.dumps(ANSWER))

    server.script(reply)
    poisoned = replace(typed_request(temperature=0.5), output=hostile)
    for request in (poisoned, typed_request(temperature=0.5), poisoned):
        assert json.loads(read_reply(model.stream(request))[0]) == ANSWER
    other = next(
        body
        for body in request_bodies(server)
        if "temperature" not in json.dumps(body["messages"] + [body.get("tools")])
    )
    is_whole = "strict" in (other.get("response_format") or {}).get("json_schema", {}) and "temperature" in other
    assert is_whole is others_send_it


def test_what_else_a_refused_schema_has_taught_holds_for_other_schemas(server: ModelServer, model: OpenAIModel) -> None:
    def reply(request: Request) -> Reply:
        if "temperature" in request.body:
            return Reply(status=400, text="'temperature' is not supported with this model")
        if "hostile" in json.dumps(request.body.get("response_format")):
            return Reply(status=400, text="failed to parse grammar")
        return Reply(json.dumps(ANSWER))

    server.script(reply)
    hostile = SCHEMA | {"properties": {"word": {"type": "string"}, "hostile": {"type": "number"}}}
    for request in (replace(typed_request(temperature=0.5), output=hostile), typed_request(temperature=0.5)):
        assert json.loads(read_reply(model.stream(request))[0]) == ANSWER
    sent = [("temperature" in body, "response_format" in body) for body in request_bodies(server)]
    assert sent == [(True, True), (False, True), (False, False), (False, True)]


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
