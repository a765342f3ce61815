"""Replies as servers were seen to send them, byte by byte, and what is read from each."""

import json
from typing import Any

import pytest

from roboco.errors import ModelError
from roboco.model.openai_model import OpenAIModel
from roboco.ports.model import Reply as ModelReply
from tests.contract.model.model_calls import API_KEY, TOOL, make_request, read_failure, read_reply
from tests.contract.model.native_server import Answer, native_server
from tests.support.servers.model_server import ModelServer, Reply

A, B = '{"a":1,"b":2}', '{"a":3,"b":4}'
NOW: dict[str, Any] = {
    **TOOL,
    "function": {"name": "now", "description": "", "parameters": {"type": "object", "properties": {}}},
}
END = b"data: [DONE]\n\n"


def event(value: Any) -> bytes:
    return b"data: %s\n\n" % json.dumps(value).encode()


def d(reason: str | None = None, **delta: Any) -> bytes:
    return event({"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})


def call(index: Any, call_id: Any, name: str | None, arguments: Any) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"index": index, "id": call_id, "function": {key: one for key, one in function.items() if one is not None}}


def calls(*fragments: tuple[Any, Any, str | None, Any]) -> bytes:
    """Return a reply with each fragment of a call in an event."""
    return b"".join(d(tool_calls=[call(*one)]) for one in fragments) + d("tool_calls") + END


def chunk(**fields: Any) -> bytes:
    """Return a chunk with the text "Four." and further fields."""
    return event({"choices": [{"index": 0, "delta": {"content": "Four."}}]} | fields)


USAGE = event({"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 5}})
FOUR = d(content="Four.") + d("stop") + END
ONE, TWO = [("add", A)], [("add", A), ("add", B)]

CALLS: dict[str, tuple[bytes, list[tuple[str, str]]]] = {
    "a new id in each fragment": (
        calls((0, "x1", "add", ""), (0, "x2", None, '{"a":1,'), (0, "x3", None, '"b":2}')),
        ONE,
    ),
    "a new id in each fragment, no index": (
        calls((None, "x1", "add", ""), (None, "x2", None, '{"a":1,'), (None, "x3", None, '"b":2}')),
        ONE,
    ),
    "all arguments again in each fragment": (
        calls((0, "x", "add", '{"a"'), (0, None, None, '{"a":1,'), (0, None, None, A)),
        ONE,
    ),
    "the whole call at the end": (calls((0, "x", "add", '{"a":1,'), (0, "x", None, '"b":2}'), (0, "x", "add", A)), ONE),
    "an empty object before the arguments": (calls((0, "x", "add", "{}"), (0, "x", None, A)), ONE),
    "one id for two calls": (calls((0, "x", "add", A), (0, "x", "add", B)), TWO),
    "two entries of one list": (
        d("tool_calls", tool_calls=[{"function": {"name": "now"}}, {"function": {"name": "now"}}]) + END,
        [("now", ""), ("now", "")],
    ),
    "two entries of one list with one index": (
        d("tool_calls", tool_calls=[call(0, "p", "now", ""), call(0, "q", "add", A)]) + END,
        [("now", ""), ("add", A)],
    ),
    "fragments of two calls by turns": (
        calls(
            (0, "x", "add", '{"a":1,'), (1, "y", "add", '{"a":3,'), (0, None, None, '"b":2}'), (1, "", None, '"b":4}')
        ),
        TWO,
    ),
    "an index that is a text": (calls(("0", "x", "add", A), ("1", "y", "add", B)), TWO),
    "an empty id first": (calls((0, "", "add", ""), (0, "x", None, A)), ONE),
    "another id at the end": (calls((0, "x", "add", A), (0, "null", None, "")), ONE),
    "arguments that are encoded twice": (calls((0, "x", "add", json.dumps(A))), ONE),
    # simonw/llm#1130, Soju06/codex-lb#284, NousResearch/hermes-agent#54879
    "the arguments twice in one piece": (calls((0, "x", "add", A + A)), ONE),
    "the arguments and the begin of another time": (calls((0, "x", "add", A + A[:5])), ONE),
    "two objects as arguments": (calls((0, "x", "add", A + B)), [("add", A + B)]),
    "signs of a chat template": (calls((0, "x", "functions.add:0", A + "<|call|>")), ONE),
    "signs of a chat template in pieces": (calls((0, "x", "add", ""), (0, None, "<|channel|>json", A + "}")), ONE),
    "a whole call without an end": (d(tool_calls=[call(0, "x", "add", A)]), ONE),
    "two ids with one index": (calls((0, "x", "add", A), (0, "y", "add", B)), TWO),
    "two names with one index, and no ids": (calls((0, None, "add", A), (0, None, "add", B)), TWO),
    "fragments of two calls with one index": (
        calls(
            (0, "x", "add", '{"a":1,'), (0, None, None, '"b":2}'), (0, "y", "add", '{"a":3,'), (0, None, None, '"b":4}')
        ),
        TWO,
    ),
    "two ids and no index": (calls((None, "x", "add", A), (None, "y", "add", B)), TWO),
    "the name before the arguments and again": (calls((0, "x", "add", ""), (0, "x", "add", A)), ONE),
    "the name in each fragment": (calls((0, "x", "add", '{"a":1,'), (0, "x", "add", '"b":2}')), ONE),
    "the name in parts": (calls((0, "x", "ad", ""), (0, None, "d", ""), (0, None, None, A)), ONE),
    "an empty id and no index": (calls((None, "x", "add", '{"a":1,'), (None, "", None, '"b":2}')), ONE),
    "the whole call twice": (calls((0, "x", "add", A), (0, "x", "add", A)), ONE),
    "arguments that are an object": (calls((0, "x", "add", json.loads(A))), [("add", json.dumps(json.loads(A)))]),
    "a function call of the earlier protocol": (
        d(function_call={"name": "add", "arguments": A}) + d("function_call") + END,
        ONE,
    ),
}

TEXTS: dict[str, bytes] = {
    "parts": d(content=[{"type": "text", "text": "Fo"}, {"type": "thinking", "thinking": "hm"}])
    + d("stop", content={"type": "text", "text": "ur."})
    + END,
    "the message beside the deltas": event({"choices": [{"delta": {"content": "Fo"}, "message": {"content": "Fo"}}]})
    + event({"choices": [{"delta": {"content": "ur."}, "message": {"content": "Four."}}]})
    + event({"choices": [{"delta": {}, "message": {"content": "Four."}, "finish_reason": "stop"}]}),
    "events without blank lines": FOUR.replace(b"\n\n", b"\n"),
    "lines that end with CR": FOUR.replace(b"\n", b"\r"),
    "the field name twice": FOUR.replace(b"data: {", b"data: data: {"),
    "keep-alives": b': ping\n\nevent: ping\ndata: {"type": "ping"}\n\ndata: {}\n\ndata:\n\n' + FOUR,
    "the end twice": FOUR + END,
    "garbage after the end": FOUR.removesuffix(END) + b"data: {oops\n\n",
    "an end in each chunk": d("stop", content="Fo") + d("stop", content="ur.") + END,
    "null as a keep-alive": d(content="Fo") + event(None) + d("stop", content="ur.") + END,
    "a reason in camel case": event({"choices": [{"delta": {"content": "Four."}, "finishReason": "stop"}]}),
    "a thought of Gemini": d(content="Hm.", extra_content={"google": {"thought": True}}) + FOUR,
    "a whole message without a reason": event({"choices": [{"message": {"content": "Four."}}]}),
    "usage at the end, and no reason": chunk() + USAGE + event({"choices": [], "cost": "0"}),
    "usage in the middle": d(content="Fo") + USAGE + d("stop", content="ur.") + END,
    "a tab that is not escaped": event({"choices": [], "x": "TAB"}).replace(b"TAB", b"\t") + FOUR,
    "no error": chunk(base_resp={"status_code": 0, "status_msg": ""}, error=None) + d("stop") + END,
    "no end": FOUR.removesuffix(END) + USAGE,
    "no reason": d(content="Four.") + USAGE + END,
    "no blank line at the end": FOUR.removesuffix(END).rstrip(),
}

FAILURES: dict[str, tuple[bytes, str, str]] = {
    "in a delta": (event({"choices": [{"delta": {"error": {"message": "it broke"}}}]}), "model", "it broke"),
    "in a message": (event({"choices": [{"message": {"error": {"message": "it broke"}}}]}), "model", "it broke"),
    "a list": (event([{"error": {"code": 503, "message": "busy"}}]), "overloaded", "busy"),
    "MiniMax": (
        event({"id": "1", "choices": None, "base_resp": {"status_code": 2049, "status_msg": "invalid api key"}}),
        "auth",
        "invalid api key",
    ),
    "no choices": (
        event({"id": None, "choices": None, "model": None, "code": 400, "message": "bad thing"}),
        "status",
        "bad thing",
    ),
    "a gateway": (
        event({"choices": None, "error_type": "BadRequestError", "error_message": "prompt is too long"}),
        "context_length",
        "prompt is too long",
    ),
    "Groq": (event({"choices": [], "x_groq": {"error": "over capacity"}}), "overloaded", "over capacity"),
    "Bedrock": (
        event({"error": "ThrottlingException: Too many tokens, please wait before trying again."}),
        "rate_limit",
        "rate limit",
    ),
    "xAI": (event({"code": "The service is unavailable: 503", "error": "It is busy"}), "overloaded", "It is busy"),
    "Baidu": (event({"error_code": 1, "error_msg": "a limit"}), "model", "a limit"),
    "429 after a text": (chunk() + event({"error": {"code": 429, "message": "x"}}), "rate_limit", "rate limit"),
    "529": (event({"error": {"code": 529, "message": "x"}}), "overloaded", "is overloaded"),
    "401": (event({"error": {"code": 401, "message": "x"}}), "auth", "refuses the key"),
    "402": (event({"error": {"code": 402, "message": "x"}}), "quota", "no credit"),
    "a reason": (chunk() + d("insufficient_system_resource") + END, "model", "insufficient_system_resource"),
    "in a choice": (
        event({"choices": [{"index": 0, "delta": {}, "error": {"message": "it broke"}}]}),
        "model",
        "it broke",
    ),
    "in a choice with the reason": (
        event(
            {"choices": [{"delta": {"content": ""}, "finish_reason": "error", "error": {"message": "idle time-out"}}]}
        )
        + END,
        "model",
        "idle time-out",
    ),
    "a field of its name": (
        b'error: {"code":400,"message":"the request exceeds the available context size"}\n\n',
        "context_length",
        "available context size",
    ),
    "an object": (
        event({"object": "error", "message": "maximum context length is 4096", "code": 400}),
        "context_length",
        "4096",
    ),
    "a text": (event({"error": "model runner has unexpectedly stopped"}), "model", "unexpectedly stopped"),
    "no JSON": (b"data: {oops\n\n", "unreadable", "oops"),
}


def read(server: ModelServer, model: OpenAIModel, body: bytes) -> tuple[str, ModelReply]:
    server.script(lambda request: Reply(garbage=body))
    *texts, reply = model.stream(make_request("go", TOOL, NOW))
    assert isinstance(reply, ModelReply)
    return "".join(map(str, texts)), reply


@pytest.mark.parametrize("given", CALLS)
def test_calls_are_read_as_they_were_meant(server: ModelServer, model: OpenAIModel, given: str) -> None:
    body, expected = CALLS[given]
    _, reply = read(server, model, body)
    assert [(call.name, call.arguments) for call in reply.calls] == expected


@pytest.mark.parametrize("given", TEXTS)
def test_a_text_is_read_once_and_whole(server: ModelServer, model: OpenAIModel, given: str) -> None:
    text, reply = read(server, model, TEXTS[given])
    assert (text, reply.finish_reason) == ("Four.", "stop")
    assert len(server.requests) == 1


@pytest.mark.parametrize("given", FAILURES)
def test_an_error_is_found_where_it_is(server: ModelServer, model: OpenAIModel, given: str) -> None:
    body, code, quote = FAILURES[given]
    with pytest.raises(ModelError) as failed:
        read(server, model, body)
    assert failed.value.code == code
    assert quote in failed.value.message


@pytest.mark.parametrize(
    ("reasons", "expected"),
    [
        (["length", "stop"], "length"),
        (["stop", "tool_calls"], "tool_calls"),
        (["SAFETY"], "content_filter"),
        (["content_filter: PROHIBITED_CONTENT"], "content_filter"),
        (["MAX_TOKENS"], "length"),
        (["model_context_window_exceeded"], "length"),  # Z.ai
        (["null", "end_turn"], "stop"),
    ],
)
def test_the_reason_that_says_most_counts(
    server: ModelServer, model: OpenAIModel, reasons: list[str], expected: str
) -> None:
    _, reply = read(server, model, b"".join([chunk(), *map(d, reasons), END]))
    assert reply.finish_reason == expected


def usage(**counts: Any) -> dict[str, Any]:
    return {"usage": counts}


REASONED = {"reasoning_tokens": 4}
"""Some servers count them among those of the reply, others only in the total."""


@pytest.mark.parametrize(
    "chunks",
    [
        [chunk(**usage(prompt_tokens=10, completion_tokens=1)), chunk(**usage(prompt_tokens=10, completion_tokens=5))],
        [chunk(**usage(prompt_tokens=10, completion_tokens=0)), chunk(**usage(prompt_tokens=0, completion_tokens=5))],
        [chunk(**usage(prompt_tokens=10, completion_tokens=5)), chunk(**usage(prompt_tokens=0, completion_tokens=0))],
        [chunk(**usage(prompt_tokens="10", completion_tokens="5.0")), chunk(usage=None)],
        [chunk(**usage(prompt_tokens=10.0, completion_tokens=5.0))],
        [chunk(**usage(prompt_tokens=None, completion_tokens=5, total_tokens=15))],
        [chunk(**usage(prompt_tokens=10, completion_tokens=1, total_tokens=15, completion_tokens_details=REASONED))],
        [chunk(**usage(prompt_tokens=10, completion_tokens=5, total_tokens=15, completion_tokens_details=REASONED))],
    ],
)
def test_the_largest_reported_counts_are_the_usage(
    server: ModelServer, model: OpenAIModel, chunks: list[bytes]
) -> None:
    _, reply = read(server, model, b"".join([*chunks, d("stop"), END]))
    assert (reply.usage.tokens_in, reply.usage.tokens_out, reply.usage.estimated) == (10, 5, False)


def test_a_prompt_that_is_not_reported_is_estimated(server: ModelServer, model: OpenAIModel) -> None:
    _, reply = read(server, model, chunk(**usage(completion_tokens=5)) + d("stop") + END)
    assert (reply.usage.tokens_out, reply.usage.estimated) == (5, True)
    assert reply.usage.tokens_in > 10


@pytest.mark.parametrize(
    ("details", "total", "expected"),
    [
        ({"cached_tokens": 64, "cache_creation_input_tokens": 20}, 105, (100, 64, 20)),  # DashScope
        ({"cached_tokens": 99, "cache_write_tokens": 99}, 105, (100, 99, 99)),  # OpenRouter, for Gemini
        ({"cached_tokens": 60, "cache_write_tokens": 60}, 225, (220, 60, 60)),
        ({"cached_tokens": 163}, 105, (263, 163, 0)),  # xAI on Azure
        ({"cached_tokens": 0, "audio_tokens": 375}, 480, (475, 0, 0)),  # Mistral
        ({"cached_tokens": 64, "audio_tokens": 30}, 105, (100, 64, 0)),
    ],
)
def test_the_reported_total_decides_whether_a_part_of_the_prompt_is_beside_it(
    server: ModelServer, model: OpenAIModel, details: dict[str, int], total: int, expected: tuple[int, int, int]
) -> None:
    counts = usage(prompt_tokens=100, completion_tokens=5, total_tokens=total, prompt_tokens_details=details)
    _, reply = read(server, model, chunk(**counts) + d("stop") + END)
    assert (reply.usage.tokens_in, reply.usage.cached_in, reply.usage.cache_write) == expected
    assert reply.usage.tokens_out == 5


WHOLE = b'{"choices":[{"index":0,"message":{"role":"assistant","content":"Four."},"finish_reason":"stop"}]}'
BODIES: dict[str, tuple[Answer, str, str]] = {
    "an object": (Answer(200, [WHOLE], "application/json"), "Four.", ""),
    "an object in place of events": (Answer(200, [b"\n\n " + WHOLE]), "Four.", ""),
    "a byte order mark": (Answer(200, [b"\xef\xbb\xbf" + FOUR]), "Four.", ""),
    "a reply after which the connection stays open": (Answer(200, [FOUR.removesuffix(END)], hold=True), "Four.", ""),
    "a page": (Answer(200, [b"<html>Sign in</html>"], "text/html"), "", "Sign in"),
    "nothing": (Answer(200, []), "", "closed the stream"),
    "plain text": (Answer(200, [b"upstream connect error"]), "", "upstream connect error"),
}
"""Whole bodies, with the text that is read from each, or the words that its error quotes."""


@pytest.mark.parametrize("given", BODIES)
def test_a_whole_body_is_read_or_quoted(model: OpenAIModel, given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    answer, text, quote = BODIES[given]
    with native_server() as server:
        server.answers = [answer]
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", API_KEY)
        if text:
            assert read_reply(model.stream(make_request()))[0] == text
            assert len(server.received) == 1
        else:
            assert quote in read_failure(model.stream(make_request()))[1].message
