"""Calls of a model: the reply, the keys that are sent, and closing."""

import json
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from roboco.model.openai_model import OpenAIModel
from roboco.ports.model import ModelStream
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
from tests.support.stack import until

pytestmark = IGNORE_ABANDONED_GENERATORS

STREAM_COUNT = 50


def test_usage_and_times_are_reported(server: ModelServer, model: OpenAIModel) -> None:
    server.script(lambda request: Reply(text="a b c d", usage=(11, 7), delay=0.05, interval=0.02))
    start = time.monotonic()
    _, result = read_reply(model.stream(make_request()))
    took = (time.monotonic() - start) * 1000
    assert (result.tokens_in, result.tokens_out) == (11, 7)
    assert result.first_token_ms >= 45
    assert result.first_token_ms <= result.duration_ms
    assert 105 <= result.duration_ms <= took + 1


def test_the_request_contains_the_settings_of_the_profile(server: ModelServer, model: OpenAIModel) -> None:
    read_reply(model.stream(make_request("plain")))
    read_reply(model.stream(make_request("all", TOOL, temperature=0.5, top_p=0.9, max_tokens=100)))
    plain, full = (record.request.body for record in server.requests)
    assert [message["content"] for message in plain["messages"]] == ["be short", "plain"]
    assert plain["stream_options"] == {"include_usage": True}
    assert {"temperature", "top_p", "max_tokens", "tools"}.isdisjoint(plain)
    assert (full["temperature"], full["top_p"], full["max_tokens"], full["tools"]) == (0.5, 0.9, 100, [TOOL])


@pytest.mark.parametrize(("of_profile", "of_call", "sent"), [(100, 20, 20), (20, 100, 20), (None, 7, 7), (8, None, 8)])
def test_the_smaller_limit_of_tokens_is_sent(
    server: ModelServer, model: OpenAIModel, of_profile: int | None, of_call: int | None, sent: int
) -> None:
    read_reply(model.stream(replace(make_request(max_tokens=of_profile), max_tokens=of_call)))
    assert server.requests[0].request.body["max_tokens"] == sent


def test_a_call_is_required_only_of_a_model_with_tools(server: ModelServer, model: OpenAIModel) -> None:
    read_reply(model.stream(replace(make_request("go", TOOL), tool_choice="required")))
    read_reply(model.stream(replace(make_request("go"), tool_choice="required")))
    read_reply(model.stream(make_request("go", TOOL)))
    assert [record.request.body.get("tool_choice") for record in server.requests] == ["required", None, None]


def test_fifty_streams_run_concurrently(server: ModelServer, model: OpenAIModel) -> None:
    server.script(lambda request: Reply(text=f"you said {request.last_user}", interval=0.02))
    barrier = threading.Barrier(STREAM_COUNT)

    def read(number: int) -> str:
        barrier.wait()
        return read_reply(model.stream(make_request(f"{number} of many")))[0]

    with ThreadPoolExecutor(STREAM_COUNT) as pool:
        assert list(pool.map(read, range(STREAM_COUNT))) == [
            f"you said {number} of many" for number in range(STREAM_COUNT)
        ]


def read_and_close(stream: ModelStream, ready: Callable[[], object], read: int = 0) -> list[Any]:
    """Close the stream while another thread reads it. Return the items of that thread, which must end without error."""
    items: list[Any] = []
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(lambda: items.extend(stream))
        until(lambda: ready() and len("".join(map(str, items))) >= read, 60, "the stream is ready to be closed")
        assert not reading.done()
        stream.close()
        reading.result(timeout=60)
    return items


@pytest.mark.parametrize(("sent", "reply"), [(0, Reply(hang_after=0)), (0, Reply(hang_after=1)), (2, None)])
def test_a_silent_stream_is_closed(server: ModelServer, model: OpenAIModel, sent: int, reply: Reply | None) -> None:
    server.script(lambda request: reply or Reply(text="one two three", hang_after=2))
    stream = model.stream(make_request())
    before = time.monotonic()
    items = read_and_close(stream, lambda: server.requests and server.requests[0].chunks_sent == sent, 4 * sent)
    assert "".join(items) == "one two "[: 4 * sent]
    [record] = server.wait_for(all_disconnected, timeout=60)
    assert not record.completed
    assert record.client_disconnected_at is not None
    assert record.client_disconnected_at - before < 30
    stream.close()
    assert list(stream) == []


def test_a_stream_is_closed_during_a_retry_delay(server: ModelServer, models: Callable[..., OpenAIModel]) -> None:
    server.script(lambda request: Reply(status=500))
    assert read_and_close(models(retry_delay=30).stream(make_request()), lambda: server.requests) == []
    assert len(server.requests) == 1


def test_the_error_without_a_key_names_the_variable(
    models: Callable[..., OpenAIModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("TEAM_KEY", raising=False)
    model = models(allowed=("TEAM_KEY",))
    for variable, profile in {"OPENAI_API_KEY": {}, "TEAM_KEY": {"api_key_env": "TEAM_KEY"}}.items():
        text, error = read_failure(model.stream(make_request(**profile)))
        assert (text, error.code, error.retryable) == ("", "no_key", False)
        assert f"{variable} is not set" in str(error)


def test_another_address_never_gets_the_key_of_the_environment(
    server: ModelServer, models: Callable[..., OpenAIModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEAM_KEY", "the team's key")
    with ModelServer(dialect="ollama") as other:
        model = models(allowed=(f"TEAM_KEY@{other.base_url}", f"NO_SUCH_KEY@{other.base_url}"))
        read_reply(model.stream(make_request(base_url=other.base_url)))
        read_reply(model.stream(make_request(base_url=other.base_url, api_key_env="TEAM_KEY")))
        read_reply(model.stream(make_request(base_url=other.base_url, api_key_env="NO_SUCH_KEY")))
        sent = [json.dumps(dict(record.request.headers)) + json.dumps(record.request.body) for record in other.requests]
        keys = [record.request.headers.get("authorization", "") for record in other.requests]
    assert server.requests == []
    assert [API_KEY in one for one in sent] == [False] * 3
    assert keys[1] == "Bearer the team's key"
    assert "team" not in keys[2]


def test_a_team_alone_reaches_no_address_and_sends_no_variable(
    server: ModelServer, models: Callable[..., OpenAIModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_PASSWORD", "hunter2")
    model = models(allowed=("TEAM_KEY",))
    with ModelServer() as other:
        for profile in (
            {"base_url": other.base_url},
            {"base_url": other.base_url, "api_key_env": "OPENAI_API_KEY"},
            {"base_url": other.base_url, "api_key_env": "TEAM_KEY"},
            {"api_key_env": "DATABASE_PASSWORD"},
        ):
            text, error = read_failure(model.stream(make_request(**profile)))
            assert (text, error.code, error.retryable) == ("", "not_allowed", False)
            assert "model_servers of ROBOCO_ALLOWLIST" in str(error)
            assert "hunter2" not in repr(error)
        assert other.requests == []
    assert server.requests == []


def test_a_redirect_does_not_receive_the_key(
    model: OpenAIModel, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Redirecting(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received_keys.append(self.headers["authorization"])
            self.send_response(307)
            self.send_header("location", f"{server.base_url}/chat/completions")
            self.send_header("content-length", "0")
            self.end_headers()

    received_keys: list[str] = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Redirecting) as redirecting:
        threading.Thread(target=redirecting.serve_forever, daemon=True).start()
        monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{redirecting.server_port}/v1")
        _, error = read_failure(model.stream(make_request()))
        redirecting.shutdown()
    assert received_keys == [f"Bearer {API_KEY}"]
    assert server.requests == []
    assert f"{server.base_url}/chat/completions" in error.message


@pytest.mark.parametrize("length", [0, 270, 280, 290, 300, 385])
def test_a_key_in_a_response_of_the_server_appears_in_no_error(
    server: ModelServer, model: OpenAIModel, caplog: pytest.LogCaptureFixture, length: int
) -> None:
    for status in (400, 401, 403, 404, 429):
        server.fail_next(1, Reply(status=status, text=f"{'x' * length}{API_KEY} is no good"))
        _, error = read_failure(model.stream(make_request()))
        assert API_KEY[:10] not in repr(error)
    for body in (
        {"error": {"message": f"{'x' * length}{API_KEY}"}},
        delta(content={"key": API_KEY}),
        {"choices": API_KEY},
    ):
        server.fail_next(4, Reply(text="a", garbage=encode_events(body)))
        _, error = read_failure(model.stream(make_request()))
        assert API_KEY[:10] not in repr(error)
    assert API_KEY[:10] not in caplog.text
