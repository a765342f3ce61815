"""Failures of a model: which calls are retried, and the errors that they raise."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
import yaml

from roboco.domain.team.context_policy import BudgetContext
from roboco.domain.team.team import Agent
from roboco.errors import ModelError
from roboco.model import openai_model
from roboco.model.openai_model import MAX_ATTEMPTS, OpenAIModel
from roboco.ports.model import Reply as ModelReply
from tests.contract.model.model_calls import (
    API_KEY,
    IGNORE_ABANDONED_GENERATORS,
    TOOL,
    all_disconnected,
    delta,
    encode_events,
    make_request,
    read_failure,
    read_reply,
)
from tests.support.servers.model_server import ModelServer, Reply

pytestmark = IGNORE_ABANDONED_GENERATORS


@pytest.mark.parametrize("status", [401, 403])
def test_the_error_of_a_refused_key_names_its_variable(server: ModelServer, model: OpenAIModel, status: int) -> None:
    server.script(lambda request: Reply(status=status, text=f"bad {request.headers['authorization']}"))
    text, error = read_failure(model.stream(make_request()))
    assert (text, error.code, error.retryable) == ("", "auth", False)
    assert "'m'" in str(error)
    assert "OPENAI_API_KEY" in str(error)
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422, 429, 500])
def test_no_message_shows_the_key(server: ModelServer, model: OpenAIModel, status: int) -> None:
    """Some servers repeat the key in their error."""
    server.script(lambda request: Reply(status=status, text=f"bad header {request.headers['authorization']}"))
    _, error = read_failure(model.stream(make_request()))
    assert API_KEY not in repr(error)


@pytest.mark.parametrize("status", [408, 409, 500, 503])
def test_a_request_to_a_busy_server_is_repeated(server: ModelServer, model: OpenAIModel, status: int) -> None:
    server.fail_next(MAX_ATTEMPTS - 1, Reply(status=status, text="busy"))
    assert read_reply(model.stream(make_request()))[0] == "echo: hello"
    assert [record.status for record in server.requests] == [status] * (MAX_ATTEMPTS - 1) + [200]


def test_a_retry_after_is_obeyed(server: ModelServer, models: Callable[..., OpenAIModel]) -> None:
    model = models(max_attempts=3)
    server.fail_next(1, Reply(status=500, headers={"Retry-After": "0.2"}))
    server.fail_next(1, Reply(status=503, headers={"Retry-After-Ms": "100"}))
    read_reply(model.stream(make_request()))
    first, second, third = (record.time for record in server.requests)
    assert second - first >= 0.2
    assert third - second >= 0.1


@pytest.mark.parametrize("header", ["3600", "Wed, 21 Oct 2099 07:28:00 GMT", "-1", "soon", ""])
def test_a_retry_after_is_obeyed_within_limits(
    server: ModelServer, model: OpenAIModel, header: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openai_model, "MAX_RETRY_DELAY", 0.05)
    server.fail_next(1, Reply(status=503, headers={"Retry-After": header}))
    assert read_reply(model.stream(make_request())), "the client would wait for an hour"


RETRY_AFTER: dict[str, tuple[dict[str, str], float | None]] = {
    "seconds": ({"Retry-After": "7"}, 7.0),
    "a fraction": ({"Retry-After": "0.25"}, 0.25),
    "at once": ({"Retry-After": "0"}, 0.0),
    "longer than a call would wait": ({"Retry-After": "3600"}, 3600.0),
    "milliseconds": ({"retry-after-ms": "1500"}, 1.5),
    "both": ({"retry-after-ms": "1500", "Retry-After": "2"}, 1.5),
    "a date that is past": ({"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
    "unsound milliseconds": ({"retry-after-ms": "soon", "Retry-After": "2"}, 2.0),
    "nothing": ({}, None),
    "an empty one": ({"Retry-After": ""}, None),
    "words": ({"Retry-After": "soon"}, None),
    "words with a comma": ({"Retry-After": "soon, maybe"}, None),
    "no such date": ({"Retry-After": "Wed, 99 Oct 2099 99:99:99 GMT"}, None),
    "less than nothing": ({"Retry-After": "-1"}, None),
    "no number": ({"Retry-After": "nan"}, None),
    "without end": ({"Retry-After": "inf"}, None),
}


@pytest.mark.parametrize("given", RETRY_AFTER)
def test_a_rate_limit_is_reported_immediately(server: ModelServer, model: OpenAIModel, given: str) -> None:
    """The client does not wait: all processes share the limit, and a wait would block a thread."""
    headers, seconds = RETRY_AFTER[given]
    server.script(lambda request: Reply(status=429, text="slow down", headers=headers))
    text, error = read_failure(model.stream(make_request()))
    assert (text, error.code, error.retryable, error.retry_after) == ("", "rate_limit", True, seconds)
    assert "slow down" in str(error)
    assert len(server.requests) == 1


CONTEXT_LENGTH_ERRORS: dict[str, Reply] = {
    "openai": Reply(status=400, text="too many tokens", code="context_length_exceeded"),
    "vllm": Reply(status=400, text="This model's maximum context length is 4096 tokens. However, " + "you said " * 99),
    "llama.cpp": Reply(status=400, text="the request exceeds the available context size"),
    "anthropic": Reply(status=413, text="prompt is too long: 210000 tokens > 200000 maximum"),
    "within the stream": Reply(
        garbage=encode_events({"error": {"message": "too many tokens", "code": "context_length_exceeded"}})
    ),
    "within the stream, by its type": Reply(
        garbage=encode_events({"error": {"message": "no", "code": 400, "type": "exceed_context_size_error"}})
    ),
}


@pytest.mark.parametrize("given", CONTEXT_LENGTH_ERRORS)
def test_the_failure_of_a_request_that_is_too_long_is_final_and_names_the_remedy(
    server: ModelServer, model: OpenAIModel, given: str
) -> None:
    server.script(lambda request: CONTEXT_LENGTH_ERRORS[given])
    _, error = read_failure(model.stream(make_request()))
    assert (error.code, error.retryable) == ("context_length", False)
    remedy = yaml.safe_load(str(error).split("`")[1])
    assert Agent.model_validate({"name": "a", "prompt": "x"} | remedy).context == BudgetContext(strategy="budget")
    assert len(server.requests) == 1


FINAL_ERRORS: dict[str, dict[str, object]] = {
    "a status": {"message": "no such parameter", "code": 400},
    "no credit": {"message": "check your plan", "code": "insufficient_quota"},
}


@pytest.mark.parametrize("given", FINAL_ERRORS)
def test_an_error_within_the_stream_that_cannot_succeed_is_final(
    server: ModelServer, model: OpenAIModel, given: str
) -> None:
    server.script(lambda request: Reply(garbage=encode_events({"error": FINAL_ERRORS[given]})))
    _, error = read_failure(model.stream(make_request()))
    assert not error.retryable
    assert str(FINAL_ERRORS[given]["message"]) in str(error)
    assert len(server.requests) == 1


@pytest.mark.parametrize("calls", [[], [("add", {"a": 1})]])
def test_a_break_after_the_first_text_is_reported_and_not_retried(
    server: ModelServer, model: OpenAIModel, calls: list[tuple[str, dict[str, object]]]
) -> None:
    """A reply that breaks off before its first text is repeated once: what breaks off twice is paid for without end."""
    server.script(lambda request: Reply(text="" if calls else "one two three", tool_calls=calls, break_after=2))
    text, error = read_failure(model.stream(make_request("go", TOOL)))
    assert (text, error.retryable) == ("" if calls else "one two ", not calls)
    assert len(server.requests) == (2 if calls else 1)
    assert error.tokens_in >= 19 * len(server.requests), "the provider has received each request"


MALFORMED_STREAMS = [
    b"data: {oops\n\n",
    b"data: \xff\xfe\x00\n\n",
    b"\x00" * 5000,
    b"data: [1, 2]\n\n",
    b"data: 7\n\n",
    b"<html>bad gateway</html>",
]


@pytest.mark.parametrize("text", ["", "one"])
@pytest.mark.parametrize("garbage", MALFORMED_STREAMS, ids=range(len(MALFORMED_STREAMS)))
def test_a_malformed_stream_is_reported(server: ModelServer, model: OpenAIModel, text: str, garbage: bytes) -> None:
    """The client retries the call only before the first text. It is no outage: the provider has answered."""
    server.script(lambda request: Reply(text=text, garbage=garbage))
    found, error = read_failure(model.stream(make_request()))
    assert (found, error.retryable) == (text, text != "" and error.code == "broken_stream")
    assert len(server.requests) == (1 if text else MAX_ATTEMPTS)
    assert error.tokens_in >= 19 * len(server.requests)


DEVIATING_CHUNKS = {
    "no delta": {"choices": [{"index": 0, "finish_reason": "stop"}]},
    "no choices": {"choices": None},
    "a number for text": delta("stop", content=5),
    "parts for text": delta("stop", content=[{"type": "text", "text": "a"}]),
    "an object for arguments": delta(
        "tool_calls", tool_calls=[{"index": 0, "function": {"name": "a", "arguments": {"b": 1}}}]
    ),
    "a number for a name": delta("tool_calls", tool_calls=[{"index": 0, "function": {"name": 5, "arguments": ""}}]),
    "no function": delta("tool_calls", tool_calls=[{"index": 0, "id": "a"}]),
    "a text for an index": delta("tool_calls", tool_calls=[{"index": n, "function": {"name": "a"}} for n in (0, "b")]),
    "usage without numbers": delta("stop") | {"usage": {"prompt_tokens": None}},
    "a text for usage": delta("stop") | {"usage": {"prompt_tokens": "many", "completion_tokens": "few"}},
}


@pytest.mark.parametrize("kind", DEVIATING_CHUNKS)
def test_every_stream_ends_with_a_reply_or_an_error(server: ModelServer, model: OpenAIModel, kind: str) -> None:
    """The chunks are those of servers that deviate from the protocol."""
    server.script(lambda request: Reply(text="one", garbage=encode_events(DEVIATING_CHUNKS[kind])))
    items: list[Any] = []
    with suppress(ModelError):
        items.extend(model.stream(make_request("go", TOOL)))
        *texts, result = items
        assert isinstance(result, ModelReply)
        assert all(isinstance(text, str) for text in texts)
        assert {type(field) for call in result.calls for field in (call.name, call.arguments)} <= {str}
        assert all(isinstance(count, int) for count in (result.tokens_in, result.tokens_out))


@pytest.mark.parametrize("silence", [Reply(hang_after=0), Reply(hang_after=1), Reply(text="late", delay=3600)])
def test_a_model_that_sends_no_token_is_retried_and_then_fails(
    server: ModelServer, models: Callable[..., OpenAIModel], silence: Reply, caplog: pytest.LogCaptureFixture
) -> None:
    server.script(lambda request: silence)
    text, error = read_failure(models(max_attempts=2, retry_delay=0.01).stream(make_request(first_token_timeout=0.2)))
    assert (text, error.code, error.retryable) == ("", "timeout", True)
    assert "sent no token within 0.2 s" in str(error)
    assert caplog.text.count("attempt 1 of 2") == 1
    assert len(server.wait_for(all_disconnected)) <= 2
