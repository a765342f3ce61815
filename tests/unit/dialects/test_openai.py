"""The strict default of the scripted model server: what OpenAI refuses, in its words, and what it accepts."""

import json
from pathlib import Path
from typing import Any

import pytest

from roboco.lab.servers.chat_protocol import ChatRefusal as Refusal
from roboco.lab.servers.chat_protocol import ChatRequest
from tests.support.servers.dialects.openai import MAX_BODY, OpenAIDialect
from tests.support.servers.dialects.openai_models import family_of

RECORDINGS = Path(__file__).parents[4] / "shared" / "wire" / "chat"
USER: dict[str, Any] = {"role": "user", "content": "hi"}
EMPTY: dict[str, Any] = {"type": "object", "properties": {}}
STRING = {"type": "string"}
CLOSED = {"type": "object", "properties": {"a": STRING}, "required": ["a"], "additionalProperties": False}
INVALID_F = "Invalid schema for function 'f': "
NOT_FOUND = "Missing required parameter: "


def tool(name: Any = "f", parameters: Any = EMPTY, **more: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": parameters, **more}}


def calling(*ids: str, content: Any = None, **more: Any) -> dict[str, Any]:
    calls = [{"id": i, "type": "function", "function": {"name": "f", "arguments": "{}"}} for i in ids]
    return {"role": "assistant", "content": content, "tool_calls": calls, **more}


def answer(call_id: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": "1"}


def schema(name: str, given: Any, **more: Any) -> dict[str, Any]:
    return {"response_format": {"type": "json_schema", "json_schema": {"name": name, "schema": given, **more}}}


def request(body: dict[str, Any], **headers: str) -> ChatRequest:
    given = {"authorization": "Bearer key"} | headers
    return ChatRequest("POST", "/v1/chat/completions", given, body)


def refusal(body: dict[str, Any], **headers: str) -> Refusal:
    with pytest.raises(Refusal) as refused:
        OpenAIDialect().check(request({"model": "gpt-4o-mini", "messages": [USER]} | body, **headers))
    return refused.value


ACCEPTED: dict[str, dict[str, Any]] = {
    "plain": {},
    "stream": {"stream": True, "stream_options": {"include_usage": True}},
    "all kinds of messages": {
        "messages": [
            {"role": "system", "content": "be short"},
            {"role": "user", "content": [{"type": "text", "text": "hi"}], "name": "ann"},
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]},
            calling("a", "b"),
            answer("b"),
            answer("a"),
            {"role": "assistant", "content": "two"},
        ]
    },
    "tools": {"tools": [tool(), {"type": "function", "function": {"name": "g"}}], "tool_choice": "required"},
    "a strict tool": {"tools": [tool(parameters=CLOSED, strict=True)], "parallel_tool_calls": False},
    "numbers": {"temperature": 0, "top_p": 0.5, "max_tokens": 16384, "seed": 7, "stop": ["a"], "user": "u", "n": 1},
    "a schema": schema("answer", CLOSED, strict=True),
    "json": {"response_format": {"type": "json_object"}, "messages": [{"role": "user", "content": "as JSON"}]},
    "nulls": {"temperature": None, "stop": None, "max_tokens": None},
    "reasoning": {"model": "o3", "reasoning_effort": "low", "max_completion_tokens": 100_000, "temperature": 1},
    "GPT-5": {"model": "gpt-5-mini", "reasoning_effort": "minimal", "tools": [tool()], "parallel_tool_calls": False},
    "no reasoning": {"model": "gpt-5.2", "temperature": 0.3, "verbosity": "low", "tools": [tool()]},
    "tools of GPT-5.6": {"model": "gpt-5.6", "reasoning_effort": "none", "tools": [tool()]},
}


@pytest.mark.parametrize("body", ACCEPTED.values(), ids=ACCEPTED)
def test_valid_requests_are_accepted(body: dict[str, Any]) -> None:
    OpenAIDialect().check(request({"model": "gpt-4o-mini", "messages": [USER]} | body))


REFUSED: list[tuple[dict[str, Any], str, str | None, str | None]] = [
    # names
    ({"foo": 1}, "Unrecognized request argument supplied: foo", None, None),
    (
        {"messages": [{**USER, "cache_control": {}}]},
        "Unknown parameter: 'messages[0].cache_control'.",
        "messages[0].cache_control",
        "unknown_parameter",
    ),
    # types
    (
        {"temperature": "hot"},
        "Invalid type for 'temperature': expected a decimal, but got a string instead.",
        "temperature",
        "invalid_type",
    ),
    ({"tools": None}, "Invalid type for 'tools': expected an array of objects, but got null", "tools", "invalid_type"),
    (
        {"tool_choice": "x", "tools": [tool()]},
        "Invalid value: 'x'. Supported values are",
        "tool_choice",
        "invalid_value",
    ),
    # values
    (
        {"temperature": 2.5},
        "Invalid 'temperature': decimal above maximum value. Expected a value <= 2, but got 2.5 instead.",
        "temperature",
        "decimal_above_max_value",
    ),
    ({"stop": ["a"] * 5}, "Invalid 'stop': array too long. Expected", "stop", "array_above_max_length"),
    ({"stream_options": {}}, "The 'stream_options' parameter is only allowed when", "stream_options", None),
    # models
    (
        {"max_tokens": 4_999_981},
        "max_tokens is too large: 4999981. This model supports at most 16384 completion tokens, whereas you provided",
        "max_tokens",
        "invalid_value",
    ),
    (
        {"model": "o3-mini", "max_tokens": 5},
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
        "max_tokens",
        "unsupported_parameter",
    ),
    (
        {"model": "gpt-5", "temperature": 0.2},
        "Unsupported value: 'temperature' does not support 0.2 with this model. Only the default (1) value",
        "temperature",
        "unsupported_value",
    ),
    (
        {"model": "gpt-5.6-terra", "tools": [tool()]},
        "Function tools with reasoning_effort are not supported for gpt-5.6-terra in /v1/chat/completions.",
        "reasoning_effort",
        None,
    ),
    # messages
    ({"messages": []}, "Invalid 'messages': empty array. Expected an array with", "messages", "empty_array"),
    (
        {"messages": [USER, calling("a", "b"), answer("a"), USER]},
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
        "The following tool_call_ids did not have response messages: b",
        "messages.[3].role",
        None,
    ),
    (
        {"messages": [USER, answer("a")]},
        "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.",
        "messages.[1].role",
        None,
    ),
    (
        {"messages": [calling("a" * 41), answer("a" * 41)]},
        "Invalid 'messages[0].tool_calls[0].id': string too long. Expected a string with maximum length 40, but got",
        "messages[0].tool_calls[0].id",
        "string_above_max_length",
    ),
    # tools
    (
        {"tools": [tool("files.read")]},
        "Invalid 'tools[0].function.name': string does not match pattern. "
        "Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.",
        "tools[0].function.name",
        "invalid_value",
    ),
]


@pytest.mark.parametrize(("body", "message", "param", "code"), REFUSED)
def test_requests_are_refused_in_the_words_of_openai(
    body: dict[str, Any], message: str, param: str | None, code: str | None
) -> None:
    refused = refusal(body)
    assert refused.message.startswith(message)
    assert (refused.status, refused.param, refused.code) == (400, param, code)


SCHEMAS: list[tuple[Any, bool, str]] = [
    ({"type": "object"}, False, "In context=(), object schema missing properties."),
    (
        {"type": "object", "properties": {"a": {"type": "array"}}},
        False,
        "In context=('properties', 'a'), array schema missing items.",
    ),
    (EMPTY, True, "In context=(), 'additionalProperties' is required to be supplied and to be false."),
    (
        {**CLOSED, "required": []},
        True,
        "In context=(), 'required' is required to be supplied and to be an array including every key in properties. "
        "Missing 'a'.",
    ),
    (
        {**CLOSED, "properties": {"a": {"type": "array", "items": STRING, "uniqueItems": True}}},
        True,
        "In context=('properties', 'a'), 'uniqueItems' is not permitted.",
    ),
]


@pytest.mark.parametrize(("parameters", "strict", "problem"), SCHEMAS)
def test_schemas_of_tools_are_refused(parameters: Any, strict: bool, problem: str) -> None:
    for _ in range(2):  # the second time from the cache
        refused = refusal({"tools": [tool("a"), tool(parameters=parameters, strict=strict)]})
        assert refused.message.startswith(INVALID_F + problem)
        assert (refused.param, refused.code) == ("tools[1].function.parameters", "invalid_function_parameters")


def test_a_strict_schema_of_an_answer_is_checked() -> None:
    refused = refusal(schema("answer", EMPTY, strict=True))
    assert refused.message.startswith("Invalid schema for response_format 'answer': In context=(), 'additional")
    assert refused.param == "response_format"


def test_a_request_without_key_is_unauthorized() -> None:
    assert refusal({}, authorization="").status == 401


def test_a_large_body_is_refused() -> None:
    assert refusal({}, **{"content-length": str(MAX_BODY + 1)}).status == 413


def test_a_body_that_is_no_json_is_refused() -> None:
    with pytest.raises(Refusal, match="could not parse the JSON body"):
        OpenAIDialect().check(request({}))


def test_the_context_of_a_server_can_be_smaller_than_that_of_its_model() -> None:
    body = {"model": "gpt-4o", "messages": [{"role": "user", "content": "x" * 404}]}
    with pytest.raises(Refusal, match="maximum context length is 100 tokens"):
        OpenAIDialect(context_window=100).check(request(body))


@pytest.mark.parametrize(
    ("model", "output"),
    [
        ("gpt-4o-mini", 16_384),
        ("gpt-4.1-nano", 32_768),
        ("gpt-4-turbo", 4_096),
        ("gpt-4", 8_192),
        ("o3", 100_000),
        ("gpt-5-nano", 128_000),
        ("gpt-5-chat-latest", 16_384),
        ("gpt-6-astra", 128_000),
        ("openai/o4-mini", 100_000),
        ("scripted", 16_384),
    ],
)
def test_each_model_has_a_maximum_of_output(model: str, output: int) -> None:
    assert family_of(model).output == output


@pytest.mark.skipif(not RECORDINGS.is_dir(), reason="there are no recordings")
@pytest.mark.parametrize("path", sorted(RECORDINGS.glob("api.openai.com*.json")), ids=lambda path: path.name)
def test_recorded_requests_that_openai_accepted_are_accepted(path: Path) -> None:
    OpenAIDialect().check(request(json.loads(path.read_text())["request"]))
