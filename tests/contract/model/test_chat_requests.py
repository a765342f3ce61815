"""Requests of chat completions: address, headers, parameters, and what is learned from refusals."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from roboco.adapters.model.chat_wire import chat_url
from roboco.adapters.model.openai_model import OpenAIModel
from tests.contract.model.model_calls import API_KEY, TOOL, make_request, read_failure, read_reply
from tests.support.servers.model_server import ModelServer, Reply


@pytest.mark.parametrize(
    ("base_url", "url"),
    [
        (None, "https://api.openai.com/v1/chat/completions"),
        ("http://h/v1/", "http://h/v1/chat/completions"),
        (
            "https://x.openai.azure.com/openai/deployments/d?api-version=2024-10-21",
            "https://x.openai.azure.com/openai/deployments/d/chat/completions?api-version=2024-10-21",
        ),
    ],
)
def test_the_query_of_an_address_follows_the_path(base_url: str | None, url: str) -> None:
    assert chat_url(base_url) == url


def test_a_deployment_of_azure_gets_its_key_in_its_own_header(
    models: Callable[..., OpenAIModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", API_KEY)
    with ModelServer(dialect="azure") as server:
        address = server.base_url.replace("/v1", "/openai/deployments/d?api-version=2024-10-21")
        model = models(allowed=(f"OPENAI_API_KEY@{address}",))
        read_reply(model.stream(make_request(base_url=address, api_key_env="OPENAI_API_KEY")))
        [record] = server.requests
    assert record.request.headers["api-key"] == API_KEY
    assert "authorization" not in record.request.headers
    assert record.request.path == "/openai/deployments/d/chat/completions"


def test_a_redirection_is_refused_and_names_the_new_address(server: ModelServer, model: OpenAIModel) -> None:
    server.script(lambda request: Reply(status=307, headers={"Location": "https://new.example/v1"}))
    _, error = read_failure(model.stream(make_request()))
    assert "'https://new.example/v1'" in error.message
    assert "base_url" in error.message


def test_requests_go_through_the_proxy_of_the_environment(
    server: ModelServer, models: Callable[..., OpenAIModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", server.base_url.removesuffix("/v1"))
    monkeypatch.setenv("OPENAI_BASE_URL", "http://model.invalid/v1")
    read_reply(models().stream(make_request()))
    assert [record.request.path for record in server.requests] == ["http://model.invalid/v1/chat/completions"]


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
    "a value": (
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
    assert [record.status for record in server.requests][-2:] == [200, 200]
    assert len(server.requests) == 3
    server.take_violations()  # the strict server refuses some of them before its script does
    assert caplog.text.count("from now on this process") == 1


def test_several_parameters_are_learned_in_one_call(server: ModelServer, models: Callable[..., OpenAIModel]) -> None:
    refused = ("temperature", "top_p", "seed")

    def answer(request: Any) -> Reply:
        for name in refused:
            if name in request.body:
                return Reply(status=400, text=f"Unrecognized request argument supplied: {name}")
        return Reply("fine")

    server.script(answer)
    reply = read_reply(models().stream(make_request(temperature=0.5, top_p=0.5, parameters={"seed": 1})))
    assert reply[0] == "fine"
    assert reply[1].usage.tokens_in < 30, "refused requests cost nothing"


def test_a_refusal_that_names_no_parameter_teaches_nothing(server: ModelServer, model: OpenAIModel) -> None:
    server.script(lambda request: Reply(status=400, text="Invalid value at 'tools[0]'"))
    _, error = read_failure(model.stream(make_request("x", TOOL)))
    assert "tools[0]" in error.message
    assert len(server.requests) == 1
