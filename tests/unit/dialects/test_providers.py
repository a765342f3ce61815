"""Dialects of providers that differ from OpenAI: what they refuse, and how they answer."""

import json
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from roboco.lab.servers.dialect import Dialect
from tests.support.servers.dialects import DIALECTS
from tests.support.servers.dialects.azure import Azure
from tests.support.servers.dialects.local import VLLM, LMStudio, Ollama
from tests.support.servers.model_server import ModelServer, Refusal, Reply

USER: dict[str, Any] = {"role": "user", "content": "hi"}
PARAMETERS = {
    "type": "object",
    "properties": {"a": {"type": "integer"}},
    "required": ["a"],
    "additionalProperties": False,
}
TOOLS = [{"type": "function", "function": {"name": name, "parameters": PARAMETERS}} for name in ("add", "find")]
CALLS = Reply(text="wait", tool_calls=[("add", {"a": 1}), ("find", {"a": 2})])
STREAM: dict[str, Any] = {"stream": True, "stream_options": {"include_usage": True}}
KEY: dict[str, str] = {"Authorization": "Bearer key"}


@dataclass
class Answer:
    """The status, and the body as JSON, or the events of a stream."""

    status: int
    body: Any = None
    events: list[Any] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    @property
    def deltas(self) -> list[dict[str, Any]]:
        return [choice["delta"] for event in self.events for choice in event.get("choices", ())]

    @property
    def calls(self) -> list[dict[str, Any]]:
        return [call for delta in self.deltas for call in delta.get("tool_calls", ())]

    @property
    def finish_reasons(self) -> list[str]:
        choices = [choice for event in self.events for choice in event.get("choices", ())]
        return [choice["finish_reason"] for choice in choices if choice["finish_reason"]]


def ask(dialect: str | Dialect, reply: Reply, path: str = "", keys: dict[str, str] = KEY, **body: Any) -> Answer:
    """Return the answer of a server of this dialect to a request."""
    with ModelServer(dialect=dialect) as server:
        server.script(lambda request: reply)
        url = server.base_url.removesuffix("/v1") + (path or "/v1/chat/completions")
        data = json.dumps({"model": "m", "messages": [USER], **body}).encode()
        given = urllib.request.Request(url, data, {"Content-Type": "application/json", **keys})
        try:
            with urllib.request.urlopen(given, timeout=10) as answer:
                text = answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, json.loads(error.read()))
    if not body.get("stream"):
        return Answer(200, json.loads(text))
    lines = text.splitlines()
    events = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
    return Answer(200, None, events, lines)


def returned(*calls: dict[str, Any], **more: Any) -> list[dict[str, Any]]:
    """Return a conversation in which these calls were made and answered."""
    results = [{"role": "tool", "tool_call_id": call["id"], "content": "1"} for call in calls]
    return [USER, {"role": "assistant", "content": "wait", "tool_calls": list(calls), **more}, *results]


def call(call_id: str = "abcdefgh1", **more: Any) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}, **more}


def assembled(answer: Answer) -> list[dict[str, Any]]:
    """Return the calls of a stream whose every delta is a whole call."""
    return [
        {name: value for name, value in one.items() if name != "index"} | {"type": "function"} for one in answer.calls
    ]


@pytest.mark.parametrize("name", DIALECTS)
def test_each_dialect_answers_with_and_without_a_stream(name: str) -> None:
    path = "/openai/v1/chat/completions"
    options: dict[str, Any] = (
        {} if name in ("mistral", "no_stream_options") else {"stream_options": {"include_usage": True}}
    )
    streamed = ask(name, Reply(text="one two", reasoning="so "), path, stream=True, tools=TOOLS, **options)
    whole = ask(name, Reply(text="one two", reasoning="so "), path, tools=TOOLS)
    text = "".join(d["content"] for d in streamed.deltas if isinstance(d.get("content"), str))
    assert text == whole.body["choices"][0]["message"]["content"] == "one two"
    assert streamed.finish_reasons == ["stop"]
    assert streamed.lines[-2] == "data: [DONE]"


def test_mistral_sends_short_ids_and_wants_them_back() -> None:
    answer = ask("mistral", CALLS, stream=True, tools=TOOLS)
    assert [len(one["id"]) for one in answer.calls] == [9, 9]
    assert answer.events[-1]["usage"]["completion_tokens"]
    assert ask("mistral", CALLS, messages=returned(*assembled(answer)), tools=TOOLS).status == 200
    refused = ask("mistral", CALLS, messages=returned(call("call_1")))
    assert refused.status == 400
    assert refused.body["message"] == "Tool call id was call_1 but must be a-z, A-Z, 0-9, with a length of 9."
    assert (refused.body["type"], refused.body["code"]) == ("invalid_function_call", "3280")


def test_mistral_refuses_unknown_parameters_and_orders_of_roles() -> None:
    cases: list[tuple[dict[str, Any], list[Any]]] = [
        (STREAM, ["body", "stream_options", "include_usage"]),
        ({"max_completion_tokens": 5}, ["body", "max_completion_tokens"]),
        (
            {"messages": [USER, {"role": "assistant", "content": "a", "reasoning_content": "b"}, USER]},
            ["body", "messages", 1, "assistant", "reasoning_content"],
        ),
    ]
    for body, loc in cases:
        refused = ask("mistral", CALLS, **body)
        assert refused.status == 422
        assert [one["loc"] for one in refused.body["message"]["detail"]] == [loc]
    refused = ask("mistral", CALLS, messages=[*returned(call()), USER])
    assert (refused.body["message"], refused.body["code"]) == ("Unexpected role 'user' after role 'tool'", "3230")


def test_mistral_thinks_in_parts_of_the_content() -> None:
    answer = ask("mistral", Reply(text="four", reasoning="hm "), stream=True)
    assert answer.deltas[1]["content"] == [{"type": "thinking", "thinking": [{"type": "text", "text": "hm "}]}]


@pytest.mark.parametrize(
    ("name", "words"), [("deepseek", "Missing `reasoning_content`"), ("kimi", "thinking is enabled")]
)
def test_thoughts_must_return_with_their_calls(name: str, words: str) -> None:
    answer = ask(name, CALLS, tools=TOOLS)
    message = answer.body["choices"][0]["message"]
    assert message["reasoning_content"]
    assert answer.body["usage"]["completion_tokens_details"]["reasoning_tokens"] > 0
    conversation = returned(*message["tool_calls"], reasoning_content=message["reasoning_content"])
    assert ask(name, CALLS, messages=conversation, tools=TOOLS).status == 200
    refused = ask(name, CALLS, messages=returned(*message["tool_calls"]), tools=TOOLS)
    assert refused.status == 400
    assert refused.body["error"]["message"].startswith(words)


def test_gemini_signs_its_calls_and_wants_the_signature_back() -> None:
    answer = ask("gemini", CALLS, "/v1beta/openai/chat/completions", tools=TOOLS, **STREAM)
    assert [one["index"] for one in answer.calls] == [0, 0]
    assert answer.finish_reasons == ["stop"]
    calls = assembled(answer)
    assert ask("gemini", CALLS, messages=returned(*calls)).status == 200
    unsigned = [{name: one[name] for name in ("id", "type", "function")} for one in calls]
    refused = ask("gemini", CALLS, messages=returned(*unsigned))
    [body] = refused.body
    assert (refused.status, body["error"]["code"], body["error"]["status"]) == (400, 400, "INVALID_ARGUMENT")
    assert "missing a thought_signature in functionCall parts" in body["error"]["message"]
    assert "`default_api:add` , position 1" in body["error"]["message"]
    assert ask("gemini", CALLS, messages=[*returned(*unsigned), USER]).status == 200  # of an earlier turn
    forged = call(extra_content={"google": {"thought_signature": "x"}})
    assert ask("gemini", CALLS, messages=returned(forged)).body[0]["error"]["message"] == "Corrupted thought signature."


def test_openrouter_wants_the_details_of_thoughts_back() -> None:
    answer = ask("openrouter", CALLS, tools=TOOLS, **STREAM)
    assert answer.lines[0] == ": OPENROUTER PROCESSING"
    details = [one for delta in answer.deltas for one in delta.get("reasoning_details", ())]
    text = "".join(one.get("text", "") for one in details)
    kept = {"type": "reasoning.text", "text": text, "signature": details[-1]["signature"], "index": 0}
    calls = ask("openrouter", CALLS, tools=TOOLS).body["choices"][0]["message"]["tool_calls"]
    assert ask("openrouter", CALLS, messages=returned(*calls, reasoning_details=[kept])).status == 200
    assert ask("openrouter", CALLS, messages=returned(*calls, reasoning_details=details)).status == 200
    refused = ask("openrouter", CALLS, messages=returned(*calls))
    assert (refused.body["error"]["code"], refused.body["error"]["message"]) == (400, "Provider returned error")
    assert "reasoning details to be preserved" in refused.body["error"]["metadata"]["raw"]


def test_groq_reports_usage_apart_and_refuses_unknown_fields() -> None:
    last = ask("groq", Reply(text="one", reasoning="hm "), **STREAM).events[-1]
    assert last["x_groq"]["usage"]["completion_tokens"] == 2
    assert "usage" not in last
    refused = ask("groq", CALLS, messages=[USER, {"role": "assistant", "content": "a", "reasoning_content": "b"}, USER])
    assert refused.body["error"]["message"] == (
        "'messages.1' : for 'role:assistant' the following must be satisfied"
        "[('messages.1' : property 'reasoning_content' is unsupported)]"
    )
    assert ask("groq", CALLS, foo=1).body["error"]["message"] == "property 'foo' is unsupported"


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (("add", {"b": 1}), "errors: [missing properties: 'a', additionalProperties 'b' not allowed]"),
        (("gone", {}), "attempted to call tool 'gone' which was not in request.tools"),
        (("add", "{no json"), "Failed to call a function."),
    ],
)
def test_groq_refuses_the_slips_of_its_model(made: tuple[str, Any], reason: str) -> None:
    slip = Reply(text="wait", tool_calls=[made])
    whole = ask("groq", slip, tools=TOOLS)
    assert (whole.status, whole.body["error"]["code"]) == (400, "tool_use_failed")
    assert reason in whole.body["error"]["message"]
    assert made[0] in whole.body["error"]["failed_generation"]
    streamed = ask("groq", slip, tools=TOOLS, **STREAM)
    assert streamed.lines[-3] == "event: error"
    assert streamed.events[-1]["error"]["status_code"] == 400
    assert streamed.events[-1]["error"]["code"] == "tool_use_failed"


def test_azure_needs_a_version_and_filters() -> None:
    path = "/openai/deployments/d/chat/completions"
    assert ask("azure", CALLS, path).body["error"]["message"] == "Resource not found"
    answer = ask("azure", Reply(text="one"), f"{path}?api-version=2024-10-21", {"api-key": "k"}, **STREAM)
    assert answer.events[0]["choices"] == []
    assert "prompt_filter_results" in answer.events[0]
    assert answer.events[2]["choices"][0]["content_filter_results"]["hate"]["severity"] == "safe"
    refused = ask("azure", CALLS, f"{path}?api-version=2024-06-01", **STREAM)
    assert refused.body["error"]["message"] == "Unrecognized request argument supplied: stream_options"
    filtered = ask(Azure(filtered="hi"), CALLS, f"{path}?api-version=2024-10-21").body["error"]
    assert (filtered["code"], filtered["type"], filtered["param"]) == ("content_filter", None, "prompt")
    assert filtered["innererror"]["content_filter_result"]["violence"]["filtered"] is True
    assert ask("azure", CALLS, "/openai/v1/chat/completions", {}).status == 401


def test_a_server_without_stream_options_refuses_them_as_fastapi_does() -> None:
    refused = ask("no_stream_options", CALLS, **STREAM)
    assert refused.status == 422
    assert refused.body["detail"][0]["loc"] == ["body", "stream_options"]
    assert not any(event["usage"] for event in ask("no_stream_options", CALLS, stream=True).events)


def test_ollama_sends_calls_that_share_an_index() -> None:
    calls = ask("ollama", CALLS, keys={}, tools=TOOLS, **STREAM).calls
    assert [(one["index"], one["function"]["name"]) for one in calls] == [(0, "add"), (0, "find")]
    assert len({one["id"] for one in calls}) == 2
    refused = ask(Ollama(has_tools=False), CALLS, tools=TOOLS)
    assert refused.body["error"]["message"] == "registry.ollama.ai/library/m does not support tools"


def test_vllm_has_numbers_as_codes_and_one_window_for_both() -> None:
    refused = ask(VLLM(context_window=100), CALLS, max_tokens=100, messages=[{"role": "user", "content": "x" * 40}])
    assert (refused.body["error"]["code"], refused.body["error"]["type"]) == (400, "BadRequestError")
    assert (
        "maximum context length is 100 tokens and your request has 10 input tokens" in refused.body["error"]["message"]
    )
    refused = ask(VLLM(auto_tools=False), CALLS, tools=TOOLS)
    assert "--enable-auto-tool-choice" in refused.body["error"]["message"]


def test_lm_studio_refuses_what_is_too_long_in_a_plain_text() -> None:
    refused = ask(LMStudio(context_window=10), CALLS, messages=[{"role": "user", "content": "x" * 44}])
    assert refused.status == 400
    assert refused.body["error"].startswith("Trying to keep the first 11 tokens when context the overflows.")


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("openai", lambda event: event["error"]["message"]),
        ("gemini", lambda event: event[0]["error"]["message"]),
        ("groq", lambda event: event["error"]["message"]),
        ("openrouter", lambda event: event["choices"][0]["finish_reason"] == "error" and event["error"]["message"]),
        ("lmstudio", lambda event: event["error"]["message"]),
    ],
)
def test_a_stream_may_fail_in_the_form_of_its_provider(name: str, found: Callable[[Any], Any]) -> None:
    reply = Reply(text="one two", failure=Refusal("upstream is gone", status=502))
    lines = ask(name, reply, **STREAM).lines
    failed = [line for line in lines if "upstream is gone" in line]
    assert [found(json.loads(line.removeprefix("data: "))) for line in failed] == ["upstream is gone"]


def test_errors_of_the_script_have_the_form_of_the_provider() -> None:
    limited = Reply(status=429, text="slow down", code="rate")
    assert ask("openai", limited).body["error"]["code"] == "rate"
    assert ask("gemini", limited).body[0]["error"]["status"] == "RESOURCE_EXHAUSTED"
    assert ask("lmstudio", limited).body == {"error": "slow down"}
