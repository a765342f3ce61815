"""Answers without end: they are cut off at a limit, as they come, and the connection is closed."""

import gzip
import json
from typing import Any

import pytest

from roboco.adapters.model import reply_assembly as assembly
from roboco.adapters.model import sse
from roboco.adapters.model.openai_model import OpenAIModel
from roboco.ports.model import Reply as Ended
from tests.contract.asking import LEFT_BEHIND, TOOL, answer, asked, delta, failure, gone
from tests.faults.hostile.model_server import call_delta, hang_after_text, send_endless_data
from tests.support.servers.model_server import ModelServer, Reply

pytestmark = LEFT_BEHIND


def cut_off(server: ModelServer, model: OpenAIModel) -> tuple[str, Ended]:
    """The answer, which was cut off."""
    text, ended = answer(model.stream(asked("hello", TOOL)))
    assert ended.finish_reason == "length"
    assert ended.limit != ""
    assert len(server.requests) == 1
    return text, ended


def test_a_text_without_end_is_cut_off_as_it_comes(
    server: ModelServer, model: OpenAIModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assembly, "MAX_TEXT_BYTES", 1001)
    hang_after_text(server, 100, "ü" * 20)
    text, ended = cut_off(server, model)
    assert text == "ü" * 500
    assert ended.limit == "1001 bytes of text"
    assert ended.tokens_out == 251
    server.wait_for(gone)


def test_arguments_without_end_are_cut_off(
    server: ModelServer, model: OpenAIModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assembly, "MAX_ARGUMENT_CHARS", 1000)
    send_endless_data(server, call_delta(0, '{"a": "'), *[call_delta(1, "x" * 50)] * 30)
    _, ended = cut_off(server, model)
    assert sum(len(requested.arguments) for requested in ended.calls) == 1000


@pytest.mark.parametrize("far", [0, 10**9, -(10**9)])
def test_calls_without_end_are_cut_off(server: ModelServer, model: OpenAIModel, far: int) -> None:
    send_endless_data(server, *(call_delta(far + index) for index in range(500)))
    _, ended = cut_off(server, model)
    assert len(ended.calls) == assembly.MAX_REPLY_CALLS
    assert {requested.arguments for requested in ended.calls} == {"{}"}


def test_new_ids_without_end_are_cut_off(server: ModelServer, model: OpenAIModel) -> None:
    send_endless_data(server, *(call_delta(None, id=f"c{number}") for number in range(500)))
    assert len(cut_off(server, model)[1].calls) == assembly.MAX_REPLY_CALLS


@pytest.mark.parametrize("chunk", [delta(), delta(content=""), call_delta(0, ""), {}], ids=str)
def test_empty_chunks_without_end_are_cut_off(
    server: ModelServer, model: OpenAIModel, chunk: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assembly, "MAX_REPLY_CHUNKS", 100)
    send_endless_data(server, *[chunk] * 200)
    assert cut_off(server, model)[0] == ""


def test_an_answer_that_takes_too_long_is_cut_off(
    server: ModelServer, model: OpenAIModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assembly, "MAX_STREAM_SECONDS", 0.0)
    hang_after_text(server, 2, "word ")
    assert cut_off(server, model)[1].limit == "0 seconds"
    server.wait_for(gone)


def test_names_are_cut(server: ModelServer, model: OpenAIModel) -> None:
    chunk = delta("r" * 5000, tool_calls=[{"index": 0, "function": {"name": "n" * 5000}}]) | {"model": "m" * 5000}
    send_endless_data(server, *[chunk] * 3)
    server.script(lambda request: Reply(garbage=b"data: %s\n\ndata: [DONE]\n\n" % json.dumps(chunk).encode()))
    _, ended = answer(model.stream(asked("hello", TOOL)))
    assert {len(ended.model), len(ended.finish_reason), len(ended.calls[0].name)} == {assembly.MAX_NAME_CHARS}


@pytest.mark.parametrize("long", [b"data: " + b"x" * 5000, b": " + b"x" * 5000, b"data: x\n" * 800])
def test_an_event_without_end_is_refused(
    server: ModelServer, model: OpenAIModel, long: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sse, "MAX_EVENT_BYTES", 4000)
    server.script(lambda request: Reply(garbage=long))
    _, error = failure(model.stream(asked()))
    assert (error.code, error.retryable) == ("too_long", False)
    assert "more than 4000 bytes" in str(error)


def test_of_an_error_only_the_beginning_is_read(server: ModelServer, model: OpenAIModel) -> None:
    server.script(lambda request: Reply(status=400, text="beginning" + "x" * 1_000_000))
    _, error = failure(model.stream(asked()))
    assert "beginning" in str(error)
    assert '{"error"' in str(error), "the body was read to its end"
    assert len(error.message) <= 400


@pytest.mark.parametrize("status", [200, 400])
def test_a_packed_answer_is_not_unpacked(server: ModelServer, model: OpenAIModel, status: int) -> None:
    packed = gzip.compress(b'{"error": {"message": "unpacked"}}')
    server.script(lambda request: Reply(status=status, garbage=packed, headers={"Content-Encoding": "gzip"}))
    _, error = failure(model.stream(asked()))
    assert "unpacked" not in str(error)
    assert server.requests[0].request.headers["accept-encoding"] == "identity"
