"""Requests of chat completions: address, headers, parameters, and what is learned from refusals."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from roboco.model.chat_wire import request_body, sent_max_tokens
from roboco.model.learned import Lessons
from roboco.model.openai_model import OpenAIModel
from tests.contract.model.model_calls import (
    API_KEY,
    TOOL,
    delta,
    encode_events,
    make_request,
    read_failure,
    read_reply,
)
from tests.support.servers.model_server import ModelServer, Reply


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    """Yield a server that refuses nothing but what the script of a test refuses: the refusals of many servers."""
    with ModelServer(dialect="lenient") as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", API_KEY)
        yield server


def test_a_redirection_is_refused_and_names_the_new_address(server: ModelServer, model: OpenAIModel) -> None:
    server.script(lambda request: Reply(status=307, headers={"Location": "https://new.example/v1"}))
    _, error = read_failure(model.stream(make_request()))
    assert "'https://new.example/v1'" in error.message
    assert "base_url" in error.message


def test_a_profile_adds_parameters_and_headers_and_leaves_parameters_out(
    server: ModelServer, models: Callable[..., OpenAIModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_TITLE", "my shop")
    profile: dict[str, Any] = {
        "parameters": {"seed": 7, "stop": ["END"]},
        "omit": ["stream_options"],
        "headers": {"X-Title": "SHOP_TITLE"},
    }
    read_reply(models(allowed=("SHOP_TITLE",)).stream(make_request(**profile)))
    [record] = server.requests
    assert (record.request.body["seed"], record.request.body["stop"]) == (7, ["END"])
    assert "stream_options" not in record.request.body
    assert record.request.headers["x-title"] == "my shop"
    _, error = read_failure(models().stream(make_request(**profile)))
    assert error.code == "not_allowed"
    assert "SHOP_TITLE" in error.message


REFUSALS: dict[str, tuple[dict[str, Any], int, Any, Callable[[dict[str, Any]], bool]]] = {
    "another name": (
        {"max_tokens": 90},
        400,
        {
            "error": {
                "message": "Unsupported parameter: 'max_tokens' is not supported with this model. "
                "Use 'max_completion_tokens' instead.",
                "param": "max_tokens",
                "code": "unsupported_parameter",
            }
        },
        lambda body: body.get("max_completion_tokens") == 90 and "max_tokens" not in body,
    ),
    "only one value": (
        {"temperature": 0.4},
        400,
        {
            "error": {
                "message": "Unsupported value: 'temperature' does not support 0.4 with this model. Only the default "
                "(1) value is supported.",
                "param": "temperature",
                "code": "unsupported_value",
            }
        },
        lambda body: "temperature" not in body,
    ),
    "FastAPI": (
        {},
        422,
        {
            "detail": [
                {"type": "extra_forbidden", "loc": ["body", "stream_options"], "msg": "Extra inputs are not permitted"}
            ]
        },
        lambda body: "stream_options" not in body,
    ),
    "Mistral": (
        {"parameters": {"reasoning_effort": "low"}},
        422,
        {
            "object": "error",
            "message": {
                "detail": [
                    {
                        "type": "extra_forbidden",
                        "loc": ["body", "reasoning_effort"],
                        "msg": "Extra inputs are not permitted",
                    }
                ]
            },
        },
        lambda body: "reasoning_effort" not in body,
    ),
    "camel case": (
        {"parameters": {"presence_penalty": 1}},
        400,
        {
            "code": "Client specified an invalid argument",
            "error": "Argument not supported on this model: presencePenalty",
        },
        lambda body: "presence_penalty" not in body,
    ),
    "a maximum": (
        {"max_tokens": 999_999},
        400,
        {
            "error": {
                "message": "max_tokens is too large: 999999. This model supports at most 16384 completion tokens, "
                "whereas you provided 999999.",
                "param": "max_tokens",
                "code": "invalid_value",
            }
        },
        lambda body: body.get("max_tokens") == 16384,
    ),
    "a range": (
        {"max_tokens": 999_999},
        400,
        {"error": {"message": "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]"}},
        lambda body: body.get("max_tokens") == 8192,
    ),
    "the rest of the context": (
        {"max_tokens": 5000},
        400,
        {
            "error": {
                "message": "'max_tokens' or 'max_completion_tokens' is too large: 5000. This model's maximum context "
                "length is 4096 tokens and your request has 30 input tokens (5000 > 4096 - 30)."
            }
        },
        lambda body: "max_tokens" not in body,
    ),
    "a value": (
        {},
        400,
        {
            "error": {
                "message": "Function tools with reasoning_effort are not supported for gpt-5.6-terra in "
                "/v1/chat/completions. To use function tools, use /v1/responses or set reasoning_effort to 'none'.",
                "param": "reasoning_effort",
            }
        },
        lambda body: body.get("reasoning_effort") == "none",
    ),
    "roles": (
        {},
        400,
        {"error": {"message": "Unsupported value: 'messages[0].role' does not support 'system' with this model."}},
        lambda body: {message["role"] for message in body["messages"]} == {"user"},
    ),
}


@pytest.mark.parametrize("given", REFUSALS)
def test_a_refused_parameter_is_learned_once(
    server: ModelServer, models: Callable[..., OpenAIModel], given: str, caplog: pytest.LogCaptureFixture
) -> None:
    profile, status, body, accepts = REFUSALS[given]
    refusal = Reply(status=status, garbage=json.dumps(body).encode())
    server.script(lambda request: Reply("fine") if accepts(request.body) else refusal)
    model = models()
    for _ in range(2):
        assert read_reply(model.stream(make_request(**profile)))[0] == "fine"
    assert [record.status for record in server.requests] == [status, 200, 200]
    assert caplog.text.count("from now on this process") == 1


def test_a_key_that_may_not_stream_teaches_one_request(server: ModelServer, models: Callable[..., OpenAIModel]) -> None:
    """BerriAI/litellm#7693; OpenAI says it to an organisation that is not verified. Other keys may stream."""
    words = {"message": "Your organization must be verified to stream this model.", "param": "stream"}
    refusal = Reply(status=400, garbage=json.dumps({"error": words}).encode())
    server.script(lambda request: refusal if "stream" in request.body else Reply("fine"))
    model = models()
    for _ in range(2):
        assert read_reply(model.stream(make_request()))[0] == "fine"
    assert [record.status for record in server.requests] == [400, 200] * 2
    assert server.requests[-1].request.body.keys().isdisjoint(("stream", "stream_options"))


def test_what_a_server_refuses_beside_streams_and_tools_is_left_out_alone(
    server: ModelServer, models: Callable[..., OpenAIModel]
) -> None:
    """A refusal of `stream_options` takes no stream away, and one of a response format no schema of a tool."""
    refused = ["This model does not support stream_options", "tools and response_format are mutually exclusive"]
    answers = [Reply(status=400, text=words) for words in refused]
    server.script(lambda request: answers.pop(0) if answers else Reply("fine"))
    tool = {"type": "function", "function": {"name": "a", "parameters": {"type": "object", "properties": {}}}}
    request = replace(make_request("go", tool), response_format={"type": "json_object"})
    assert read_reply(models().stream(request))[0] == "fine"
    body = server.requests[-1].request.body
    assert body["stream"] is True
    assert body["tools"] == [tool]
    assert body.keys().isdisjoint(("stream_options", "response_format"))


def test_no_secret_is_in_the_log_of_a_lesson_or_a_repetition(
    server: ModelServer,
    models: Callable[..., OpenAIModel],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "abc-secret-1")
    words = f"`seed` is not supported for {API_KEY} and abc-secret-1"
    garbage = Reply(garbage=f"data: {words}\n\n".encode())
    replies = iter([Reply(status=400, text=words), garbage, garbage, Reply("fine")])
    server.script(lambda request: next(replies))
    model = models(allowed=("SHOP_TOKEN",), retry_delay=0.01)
    request = make_request(parameters={"seed": 1}, headers={"X-Token": "SHOP_TOKEN"})
    _, error = read_failure(model.stream(request))
    assert "from now on" in caplog.text
    assert "attempt 1 of 2" in caplog.text
    for secret in (API_KEY, "abc-secret-1"):
        assert secret not in caplog.text + error.message


def test_a_key_in_the_address_is_in_no_message(
    server: ModelServer, models: Callable[..., OpenAIModel], caplog: pytest.LogCaptureFixture
) -> None:
    address = f"{server.base_url}?key=AIza-0123456789"
    _, error = read_failure(models().stream(make_request(base_url=address.replace("127.0.0.1", "localhost"))))
    words = f"`seed` is not supported at {address}"
    replies = iter([Reply(status=400, text=words), Reply(status=403, text=f"bad address {address}")])
    server.script(lambda request: next(replies))
    _, refused = read_failure(models().stream(make_request(base_url=address, parameters={"seed": 1})))
    assert (error.code, refused.code) == ("not_allowed", "auth")
    assert "AIza" not in f"{error} {refused} {caplog.text}"


def tool_loop(**message: Any) -> Any:
    """Return a request with a call of an earlier reply, its result and a message of the user."""
    call = {"id": "tc_1", "type": "function", "function": {"name": "add", "arguments": "{}"}}
    asked = {"role": "assistant", "content": "", "tool_calls": [call], **message}
    result = {"role": "tool", "tool_call_id": "tc_1", "content": "3"}
    request = make_request("go", TOOL)
    return replace(request, messages=(*request.messages, asked, result, {"role": "user", "content": "and?"}))


def test_what_a_provider_wants_back_returns_to_the_same_server_and_model_only(
    server: ModelServer, models: Callable[..., OpenAIModel]
) -> None:
    signature = {"google": {"thought_signature": "sig"}}
    fragment = {
        "index": 0,
        "id": "own_id_1",
        "function": {"name": "add", "arguments": "{}"},
        "extra_content": signature,
    }
    reply = encode_events(
        delta(reasoning_content="hm"),
        delta(tool_calls=[fragment], reasoning_details=[{"type": "x"}]),
        delta("tool_calls"),
    )
    server.fail_next(1, Reply(garbage=reply))
    model = models()
    _, made = read_reply(model.stream(make_request("go", TOOL)))
    server.script(lambda request: Reply("fine"))
    again = tool_loop(provider=made.provider)
    read_reply(model.stream(again))
    other = replace(again, profile=again.profile.model_copy(update={"model": "other"}))
    read_reply(model.stream(other))
    same, changed = (record.request.body["messages"] for record in server.requests[-2:])
    assert (same[2]["reasoning_content"], same[2]["reasoning_details"]) == ("hm", [{"type": "x"}])
    assert same[2]["tool_calls"][0]["extra_content"] == signature
    assert same[2]["tool_calls"][0]["id"] == same[3]["tool_call_id"] == "own_id_1"
    assert "hm" not in json.dumps(changed)
    assert "sig" not in json.dumps(changed)
    assert changed[2]["tool_calls"][0]["id"] == changed[3]["tool_call_id"] == "tc_1"


def test_an_id_that_a_provider_gives_twice_is_sent_once() -> None:
    """can1357/oh-my-pi#2055: each of two replies has a call with the same id."""
    request = tool_loop(provider={"calls": [{"id": "call_0"}]})
    call = {"id": "tc_2", "type": "function", "function": {"name": "add", "arguments": "{}"}}
    further = {"role": "assistant", "content": "", "tool_calls": [call], "provider": {"calls": [{"id": "call_0"}]}}
    result = {"role": "tool", "tool_call_id": "tc_2", "content": "4"}
    sent = request_body(replace(request, messages=(*request.messages, further, result)), Lessons())["messages"]
    assert [message["tool_call_id"] for message in sent if message["role"] == "tool"] == ["call_0", "tc_2"]
    assert [one["id"] for message in sent for one in message.get("tool_calls", ())] == ["call_0", "tc_2"]


@pytest.mark.parametrize(
    ("own", "left", "learned", "sent"),
    [
        (None, 4_999_981, None, None),
        (None, 4095, None, 4095),
        (None, 4096, None, None),
        (400, 4_999_981, None, 400),
        (400, 50, None, 50),
        (100_000, None, 16_384, 16_384),
        (None, 10_000, 16_384, 10_000),
    ],
)
def test_a_limit_never_asks_for_more_than_a_model_can(
    own: int | None, left: int | None, learned: int | None, sent: int | None
) -> None:
    request = replace(make_request(max_tokens=own), max_tokens=left)
    assert sent_max_tokens(request, learned) == sent


ODD: dict[str, Any] = {
    "type": "object",
    "$defs": {"place": {"type": "string", "description": "a place", "pattern": "^x"}},
    "properties": {
        "at": {"$ref": "#/$defs/place"},
        "kind": {"anyOf": [{"const": "a"}, {"type": "null"}], "description": "the kind"},
        "size": {"type": ["integer", "null"], "minimum": 0},
        "any": {},
        "rows": {"type": "array", "minItems": 1},
        "free": {"type": "object", "additionalProperties": {"type": "string"}},
        "both": {"oneOf": [{"type": "number"}, {"type": "boolean"}]},
    },
    "required": ["at", "gone"],
}
PLAIN = {
    "type": "object",
    "properties": {
        "at": {"type": "string", "description": "a place"},
        "kind": {"type": "string", "enum": ["a"], "description": "the kind"},
        "size": {"type": "integer"},
        "any": {"type": "string"},
        "rows": {"type": "array", "items": {"type": "string"}},
        "free": {"type": "object", "properties": {}},
        "both": {"anyOf": [{"type": "number"}, {"type": "boolean"}]},
    },
    "required": ["at"],
}


def test_refused_schemas_of_tools_are_plain_in_that_request_alone(
    server: ModelServer, models: Callable[..., OpenAIModel]
) -> None:
    """A tenant's tool does not change the tools of others."""
    function = {"name": "odd", "description": "finds", "parameters": ODD}
    odd = {"type": "function", "function": function}
    words = "Invalid schema for function 'odd': 'minItems' is not supported"
    server.script(lambda request: Reply(status=400, text=words) if "$defs" in str(request.body) else Reply("fine"))
    model = models()
    for _ in range(2):
        assert read_reply(model.stream(make_request("go", odd)))[0] == "fine"
    assert [record.status for record in server.requests] == [400, 200, 400, 200]
    assert server.requests[-1].request.body["tools"][0]["function"] == function | {"parameters": PLAIN}


MESSAGES: list[dict[str, Any]] = [
    {"role": "system", "content": "be short"},
    {"role": "assistant", "content": "Hello."},
    {"role": "user", "content": "[writer] Go."},
    {"role": "user", "content": [{"type": "text", "text": "Now."}]},
    {"role": "assistant", "content": "", "tool_calls": [{"id": "x", "function": {"name": "add", "arguments": "{}"}}]},
    {"role": "tool", "tool_call_id": "x", "content": " "},
    {"role": "user", "content": "And?"},
]


def test_messages_take_the_form_that_a_server_demands() -> None:
    request = replace(make_request(), messages=tuple(MESSAGES))
    sent = request_body(request, Lessons(forms={"alternates", "fills_messages"}))["messages"]
    roles = ["system", "user", "assistant", "user", "assistant", "tool", "assistant", "user"]
    assert [message["role"] for message in sent] == roles
    assert sent[3]["content"] == [{"type": "text", "text": "[writer] Go."}, {"type": "text", "text": "Now."}]
    assert [sent[4]["content"], sent[5]["content"]] == [None, "(empty)"]
    assert request_body(request, Lessons())["messages"] == MESSAGES


FILE = {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0="}}
SOUND = {"type": "input_audio", "input_audio": {"data": "SUQzBA==", "format": "mp3"}}
DOCUMENT = {"type": "document_url", "document_url": FILE["file"]["file_data"], "document_name": "a.pdf"}  # type: ignore[index]


@pytest.mark.parametrize(("provider", "sent"), [("openai", [FILE, SOUND]), ("mistral", [DOCUMENT, SOUND])])
def test_files_are_sent_as_openai_and_mistral_want_them(provider: Any, sent: list[Any]) -> None:
    messages = ({"role": "system", "content": "hi"}, {"role": "user", "content": [FILE, SOUND]})
    request = replace(make_request(provider=provider), messages=messages)
    assert request_body(request, Lessons())["messages"] == [messages[0], messages[1] | {"content": sent}]
