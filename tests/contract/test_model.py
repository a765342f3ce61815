"""Models over the openai package, against a scripted server."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest

from roboco.adapters.model import openai_model
from roboco.adapters.model.openai_model import TRIES, OpenAIModel
from roboco.domain.team import ModelProfile
from roboco.errors import ModelError
from roboco.ports import ModelStream, RequestedCall
from roboco.ports import Reply as Ended
from roboco.ports import Request as Asked
from tests.servers.model_server import ModelServer, Record, Reply
from tests.stack import until

KEY = "sk-secret-0123456789"
STREAMS = 50
NOTHING = b": a comment, as the end of a stream\n\n"
TOOL = {"type": "function", "function": {"name": "add", "description": "adds", "parameters": {"type": "object"}}}


@pytest.fixture(scope="module")
def models() -> Iterator[Callable[..., OpenAIModel]]:
    """Makes models, and takes down what each keeps for the life of its process: a loop and connections."""
    made: list[OpenAIModel] = []

    def make(**options: Any) -> OpenAIModel:
        made.append(OpenAIModel(**options))
        return made[-1]

    yield make
    for model in made:
        take_down(model)


def take_down(model: OpenAIModel) -> None:
    """Close the connections and end the loop."""

    async def close() -> None:
        for client in model._clients.values():
            await client.close()

    model._loop.submit(close()).result(5)
    loop = model._loop._loop
    assert loop is not None
    loop.call_soon_threadsafe(loop.stop)
    until(lambda: not loop.is_running(), 5, "the loop has ended")
    loop.close()


@pytest.fixture(scope="module")
def model(models: Callable[..., OpenAIModel]) -> OpenAIModel:
    """One for all tests, that does not wait long before it tries again."""
    return models(pause=0.01)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    """The server that OPENAI_BASE_URL names; it must find nothing wrong with the requests."""
    with ModelServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        yield server
        assert server.violations == []


def asked(text: str = "hello", *tools: dict[str, Any], **profile: Any) -> Asked:
    """A request."""
    messages = ({"role": "system", "content": "be short"}, {"role": "user", "content": text})
    return Asked(ModelProfile(**({"model": "m"} | profile)), messages, tools)


def answer(stream: ModelStream) -> tuple[str, Ended]:
    """The whole text, and how the call ended."""
    *texts, ended = stream
    assert isinstance(ended, Ended)
    assert all(isinstance(text, str) and text for text in texts)
    return "".join(map(str, texts)), ended


def failure(stream: ModelStream) -> tuple[str, ModelError]:
    """The text that came, and the error that ended it."""
    texts: list[str] = []
    with pytest.raises(ModelError) as failed:
        texts.extend(map(str, stream))
    return "".join(texts), failed.value


def events(*chunks: Any) -> bytes:
    """Server-sent events as a server of another make words them."""
    return b"".join(b"data: %s\n\n" % json.dumps(chunk).encode() for chunk in chunks) + b"data: [DONE]\n\n"


def delta(finish_reason: str | None = None, **fields: Any) -> dict[str, Any]:
    """One chunk of a stream."""
    return {"model": "m", "choices": [{"index": 0, "delta": fields, "finish_reason": finish_reason}]}


def gone(records: list[Record]) -> bool:
    """Whether the server saw all clients disconnect."""
    return bool(records) and all(record.client_disconnected_at for record in records)


# --- what comes


@pytest.mark.parametrize("text", ["one two three", "ü漢\U0001f600 \n\n\t {}", "x" * 5000])
def test_the_text_comes_in_order_and_whole(server: ModelServer, model: OpenAIModel, text: str) -> None:
    server.script(lambda request: Reply(text=text, chunks=40))
    found, ended = answer(model.stream(asked()))
    assert found == text
    assert (ended.model, ended.finish_reason, ended.calls) == ("m", "stop", ())


def test_the_first_text_is_sent_at_once(server: ModelServer, model: OpenAIModel) -> None:
    server.script(lambda request: Reply(text="one two", hang_after=1))
    stream = model.stream(asked())
    assert next(iter(stream)) == "one "
    stream.close()


def test_an_empty_answer_is_an_answer(server: ModelServer, model: OpenAIModel) -> None:
    server.script(lambda request: Reply(finish_reason="length"))
    text, ended = answer(model.stream(asked()))
    assert (text, ended.finish_reason, ended.calls) == ("", "length", ())


def test_usage_and_times_are_reported(server: ModelServer, model: OpenAIModel) -> None:
    server.script(lambda request: Reply(text="a b c d", usage=(11, 7), delay=0.05, interval=0.02))
    start = time.monotonic()
    _, ended = answer(model.stream(asked()))
    took = (time.monotonic() - start) * 1000
    assert (ended.tokens_in, ended.tokens_out) == (11, 7)
    assert ended.first_token_ms >= 45
    assert ended.first_token_ms + 55 <= ended.duration_ms <= took + 1


def test_without_usage_the_pieces_are_counted(server: ModelServer, model: OpenAIModel) -> None:
    server.script(lambda request: Reply(text="a b c", garbage=events(delta("stop"))))
    _, ended = answer(model.stream(asked()))
    assert (ended.tokens_in, ended.tokens_out) == (0, 3)


def test_the_request_says_what_the_profile_says(server: ModelServer, model: OpenAIModel) -> None:
    answer(model.stream(asked("plain")))
    answer(model.stream(asked("all", TOOL, temperature=0.5, top_p=0.9, max_tokens=100)))
    plain, full = (record.request.body for record in server.requests)
    assert [message["content"] for message in plain["messages"]] == ["be short", "plain"]
    assert plain["stream_options"] == {"include_usage": True}
    assert {"temperature", "top_p", "max_tokens", "tools"}.isdisjoint(plain)
    assert (full["temperature"], full["top_p"], full["max_tokens"], full["tools"]) == (0.5, 0.9, 100, [TOOL])


def test_tool_calls_are_put_together(server: ModelServer, model: OpenAIModel) -> None:
    """The pieces of their arguments come in turn; nonsense is passed on as it came."""
    given = (("add", json.dumps({"a": 1, "text": "ü \n"})), ("find", "{no json"), ("add", ""), ("none", "[1, 2]"))
    server.script(lambda request: Reply(text="wait", tool_calls=given))
    text, ended = answer(model.stream(asked("go", TOOL)))
    assert (text, ended.finish_reason) == ("wait", "tool_calls")
    assert ended.calls == tuple(RequestedCall(name, arguments) for name, arguments in given)


def test_tool_calls_without_an_index_are_told_apart_by_their_ids(server: ModelServer, model: OpenAIModel) -> None:
    one, two = ({"id": f"call_{n}", "function": {"name": n, "arguments": "{}"}} for n in ("add", "find"))
    chunks = events(delta(tool_calls=[one]), delta(tool_calls=[two]), delta("tool_calls"))
    server.script(lambda request: Reply(garbage=chunks))
    _, ended = answer(model.stream(asked("go", TOOL)))
    assert ended.calls == (RequestedCall("add", "{}"), RequestedCall("find", "{}"))


def test_fifty_streams_at_once(server: ModelServer, model: OpenAIModel) -> None:
    server.script(lambda request: Reply(text=f"you said {request.last_user}", interval=0.02))
    together = threading.Barrier(STREAMS)

    def ask(number: int) -> str:
        together.wait()
        return answer(model.stream(asked(f"{number} of many")))[0]

    with ThreadPoolExecutor(STREAMS) as pool:
        assert list(pool.map(ask, range(STREAMS))) == [f"you said {number} of many" for number in range(STREAMS)]


# --- what fails


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_key_is_told_by_its_name(server: ModelServer, model: OpenAIModel, status: int) -> None:
    server.script(lambda request: Reply(status=status, text=f"bad {request.headers['authorization']}"))
    text, error = failure(model.stream(asked()))
    assert (text, error.code, error.retryable) == ("", "auth", False)
    assert "'m'" in str(error)
    assert "OPENAI_API_KEY" in str(error)
    assert len(server.requests) == 1


def test_an_unknown_model_is_told(server: ModelServer, model: OpenAIModel) -> None:
    server.script(lambda request: Reply(status=404, text="there is no such model"))
    _, error = failure(model.stream(asked()))
    assert (error.code, error.retryable) == ("not_found", False)
    assert "'m'" in str(error)
    assert "there is no such model" in str(error)
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422, 429, 500])
def test_no_message_shows_the_key(server: ModelServer, model: OpenAIModel, status: int) -> None:
    """Some servers repeat it."""
    server.script(lambda request: Reply(status=status, text=f"bad header {request.headers['authorization']}"))
    _, error = failure(model.stream(asked()))
    assert KEY not in repr(error)


@pytest.mark.parametrize("key", ["sk-ends-in-a-newline\n", "sk-schlüssel", "sk-漢", "sk-control\x01"])
def test_no_message_shows_a_key_that_cannot_be_sent(
    server: ModelServer,
    model: OpenAIModel,
    key: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", key)
    failed: list[str] = []
    try:
        answer(model.stream(asked()))
    except ModelError as error:
        failed.append(repr(error))
    assert [message for message in failed if key.strip() in message or "OPENAI_API_KEY" not in message] == []
    assert key.strip() not in caplog.text


@pytest.mark.parametrize("status", [400, 422])
def test_a_wrong_request_is_not_repeated(server: ModelServer, model: OpenAIModel, status: int) -> None:
    server.script(lambda request: Reply(status=status, text="too long for me"))
    _, error = failure(model.stream(asked()))
    assert (error.code, error.retryable) == ("status", False)
    assert f"{status}: too long for me" in str(error)
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [408, 409, 429, 500, 503])
def test_a_busy_server_is_asked_again(server: ModelServer, model: OpenAIModel, status: int) -> None:
    server.fail_next(TRIES - 1, Reply(status=status, text="busy"))
    assert answer(model.stream(asked()))[0] == "echo: hello"
    assert [record.status for record in server.requests] == [status] * (TRIES - 1) + [200]


@pytest.mark.parametrize(("status", "code"), [(429, "rate_limit"), (500, "status")])
def test_tries_are_bounded(server: ModelServer, model: OpenAIModel, status: int, code: str) -> None:
    server.script(lambda request: Reply(status=status, text="busy"))
    text, error = failure(model.stream(asked()))
    assert (text, error.code, error.retryable) == ("", code, True)
    assert "busy" in str(error)
    assert len(server.requests) == TRIES


def test_a_retry_after_is_obeyed(server: ModelServer, model: OpenAIModel) -> None:
    server.fail_next(1, Reply(status=429, headers={"Retry-After": "0.2"}))
    server.fail_next(1, Reply(status=503, headers={"Retry-After": "0.1"}))
    answer(model.stream(asked()))
    first, second, third = (record.time for record in server.requests)
    assert second - first >= 0.2
    assert third - second >= 0.1


@pytest.mark.parametrize("header", ["3600", "Wed, 21 Oct 2099 07:28:00 GMT", "-1", "soon", ""])
def test_a_retry_after_is_obeyed_within_limits(
    server: ModelServer, model: OpenAIModel, header: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openai_model, "LONGEST", 0.05)
    server.fail_next(1, Reply(status=429, headers={"Retry-After": header}))
    start = time.monotonic()
    answer(model.stream(asked()))
    assert time.monotonic() - start < 2


def test_a_connection_that_breaks_before_the_first_token_is_made_again(server: ModelServer, model: OpenAIModel) -> None:
    server.fail_next(1, Reply(text="never", break_after=0))
    server.fail_next(1, Reply(break_after=1))
    server.fail_next(1, Reply(garbage=NOTHING))
    assert answer(model.stream(asked()))[0] == "echo: hello"
    assert len(server.requests) == 4


def test_a_server_that_is_not_there_is_told(model: OpenAIModel, monkeypatch: pytest.MonkeyPatch) -> None:
    with ModelServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
    _, error = failure(model.stream(asked()))
    assert (error.code, error.retryable) == ("connection", True)
    assert "'m' cannot be reached" in str(error)


@pytest.mark.parametrize("calls", [[], [("add", {"a": 1})]])
def test_a_break_after_the_first_token_is_told_and_not_repeated(
    server: ModelServer, model: OpenAIModel, calls: list[tuple[str, dict[str, object]]]
) -> None:
    server.script(lambda request: Reply(text="" if calls else "one two three", tool_calls=calls, break_after=2))
    text, error = failure(model.stream(asked("go", TOOL)))
    assert (text, error.retryable) == ("" if calls else "one two ", True)
    assert len(server.requests) == 1


def test_an_answer_without_its_end_is_told(server: ModelServer, model: OpenAIModel) -> None:
    server.script(lambda request: Reply(text="one two", garbage=NOTHING))
    text, error = failure(model.stream(asked()))
    assert (text, error.code, error.retryable) == ("one two", "broken_stream", True)
    assert "in the middle of its answer" in str(error)


def test_an_error_within_the_stream_is_told(server: ModelServer, model: OpenAIModel) -> None:
    server.script(lambda request: Reply(text="one", garbage=events({"error": {"message": "overloaded", "code": 529}})))
    text, error = failure(model.stream(asked()))
    assert (text, error.retryable) == ("one", True)
    assert "overloaded" in str(error)
    assert len(server.requests) == 1


GARBAGE = [
    b"data: {oops\n\n",
    b"data: \xff\xfe\x00\n\n",
    b"\x00" * 5000,
    b"data: [1, 2]\n\n",
    b"data: 7\n\n",
    b"<html>bad gateway</html>",
]


@pytest.mark.parametrize("text", ["", "one"])
@pytest.mark.parametrize("garbage", GARBAGE, ids=range(len(GARBAGE)))
def test_garbage_is_told(server: ModelServer, model: OpenAIModel, text: str, garbage: bytes) -> None:
    """Before the first token the call is tried again, after it it is not."""
    server.script(lambda request: Reply(text=text, garbage=garbage))
    found, error = failure(model.stream(asked()))
    assert (found, error.retryable) == (text, True)
    assert len(server.requests) == (1 if text else TRIES)


ODD = {
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


@pytest.mark.parametrize("odd", ODD)
def test_every_stream_ends_with_a_reply_or_an_error(server: ModelServer, model: OpenAIModel, odd: str) -> None:
    """Whatever a server of another make says."""
    server.script(lambda request: Reply(text="one", garbage=events(ODD[odd])))
    items: list[Any] = []
    with suppress(ModelError):
        items.extend(model.stream(asked("go", TOOL)))
        *texts, ended = items
        assert isinstance(ended, Ended)
        assert all(isinstance(text, str) for text in texts)
        assert {type(field) for call in ended.calls for field in (call.name, call.arguments)} <= {str}
        assert all(isinstance(count, int) for count in (ended.tokens_in, ended.tokens_out))


# --- time


@pytest.mark.parametrize("silence", [Reply(hang_after=0), Reply(hang_after=1), Reply(text="late", delay=3600)])
def test_a_model_that_does_not_begin_is_given_up(
    server: ModelServer, models: Callable[..., OpenAIModel], silence: Reply
) -> None:
    server.script(lambda request: silence)
    text, error = failure(models(tries=2, pause=0.01).stream(asked(first_token_timeout=0.2)))
    assert (text, error.code, error.retryable) == ("", "timeout", True)
    assert "sent no token within 0.2 s" in str(error)
    assert len(server.wait_for(gone)) == 2


def test_a_model_that_falls_silent_is_given_up(server: ModelServer, model: OpenAIModel) -> None:
    server.script(lambda request: Reply(text="one two three", hang_after=2))
    text, error = failure(model.stream(asked(idle_timeout=0.05)))
    assert (text, error.code, error.retryable) == ("one two ", "timeout", True)
    assert "fell silent for 0.05 s" in str(error)
    assert len(server.wait_for(gone)) == 1


def test_a_slow_model_is_waited_for(server: ModelServer, model: OpenAIModel) -> None:
    server.script(lambda request: Reply(text="a b c d e f g", interval=0.1))
    assert answer(model.stream(asked(first_token_timeout=0.4, idle_timeout=0.4)))[0] == "a b c d e f g"


# --- closing


def read_and_close(stream: ModelStream, ready: Callable[[], object]) -> list[Any]:
    """What another thread reads of the stream, which is closed when it is ready; it ends at once and quietly."""
    items: list[Any] = []
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(lambda: items.extend(stream))
        until(ready, 5, "the stream is where it is closed")
        assert not reading.done()
        stream.close()
        reading.result(timeout=1)
    return items


@pytest.mark.parametrize(("sent", "reply"), [(0, Reply(hang_after=0)), (0, Reply(hang_after=1)), (2, None)])
def test_a_silent_stream_is_closed(server: ModelServer, model: OpenAIModel, sent: int, reply: Reply | None) -> None:
    server.script(lambda request: reply or Reply(text="one two three", hang_after=2))
    stream = model.stream(asked())
    before = time.monotonic()
    items = read_and_close(stream, lambda: server.requests and server.requests[0].chunks_sent == sent)
    assert "".join(items) == "one two "[: 4 * sent]
    [record] = server.wait_for(gone, timeout=1)
    assert not record.completed
    assert record.client_disconnected_at is not None
    assert record.client_disconnected_at - before < 3
    stream.close()
    assert list(stream) == []


def test_a_speaking_stream_is_closed(server: ModelServer, model: OpenAIModel) -> None:
    server.script(lambda request: Reply(text="word " * 5000, interval=0.005))
    stream = model.stream(asked())
    items = read_and_close(stream, lambda: server.requests and server.requests[0].chunks_sent > 10)
    assert set("".join(items).split()) == {"word"}
    [record] = server.wait_for(gone, timeout=1)
    assert record.chunks_sent < 1000


def test_a_stream_is_closed_while_it_waits_to_try_again(
    server: ModelServer, models: Callable[..., OpenAIModel]
) -> None:
    server.script(lambda request: Reply(status=500))
    assert read_and_close(models(pause=30).stream(asked()), lambda: server.requests) == []
    assert len(server.requests) == 1


def test_a_stream_is_closed_before_it_was_read(server: ModelServer, model: OpenAIModel) -> None:
    server.script(lambda request: Reply(text="one two", hang_after=1))
    for _ in range(20):
        stream = model.stream(asked())
        stream.close()
        stream.close()
        assert [item for item in stream if isinstance(item, Ended)] == []
    until(lambda: gone(server.requests) or not server.requests, 5, "all connections are closed")


def test_a_stream_that_has_ended_is_closed(server: ModelServer, model: OpenAIModel) -> None:
    stream = model.stream(asked())
    assert answer(stream)[0] == "echo: hello"
    stream.close()
    assert server.requests[0].completed
    assert server.requests[0].client_disconnected_at is None


# --- keys


def test_without_a_key_the_variable_is_named(model: OpenAIModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("TEAM_KEY", raising=False)
    for variable, profile in {"OPENAI_API_KEY": {}, "TEAM_KEY": {"api_key_env": "TEAM_KEY"}}.items():
        text, error = failure(model.stream(asked(**profile)))
        assert (text, error.code, error.retryable) == ("", "no_key", False)
        assert f"{variable} is not set" in str(error)


def test_the_key_of_the_environment_is_sent(
    server: ModelServer, model: OpenAIModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(model.stream(asked()))
    monkeypatch.setenv("OPENAI_API_KEY", "a newer key")
    answer(model.stream(asked()))
    sent = [record.request.headers["authorization"] for record in server.requests]
    assert sent == [f"Bearer {KEY}", "Bearer a newer key"]


def test_another_address_never_gets_the_key_of_the_environment(
    server: ModelServer, model: OpenAIModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEAM_KEY", "the team's key")
    with ModelServer() as other:
        answer(model.stream(asked(base_url=other.base_url)))
        answer(model.stream(asked(base_url=other.base_url, api_key_env="TEAM_KEY")))
        answer(model.stream(asked(base_url=other.base_url, api_key_env="NO_SUCH_KEY")))
        told = [json.dumps(dict(record.request.headers)) + json.dumps(record.request.body) for record in other.requests]
        keys = [record.request.headers.get("authorization", "") for record in other.requests]
    assert server.requests == []
    assert [KEY in one for one in told] == [False] * 3
    assert keys[1] == "Bearer the team's key"
    assert "team" not in keys[2]


def test_the_key_that_is_refused_is_the_profiles(
    server: ModelServer, model: OpenAIModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEAM_KEY", "the team's key")
    server.script(lambda request: Reply(status=401))
    _, error = failure(model.stream(asked(base_url=server.base_url, api_key_env="TEAM_KEY")))
    assert "TEAM_KEY" in str(error)
    assert "the team's key" not in repr(error)
