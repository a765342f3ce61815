"""Answers without end: the client truncates them at a limit while they are streamed, and closes the connection."""

import asyncio
import gzip
import zlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from roboco.errors import ModelError
from roboco.model import reply_assembly as assembly
from roboco.model import sse
from roboco.model.openai_model import OpenAIModel
from roboco.ports.model import Reply as ModelReply
from tests.contract.model.model_calls import (
    IGNORE_ABANDONED_GENERATORS,
    TOOL,
    all_disconnected,
    delta,
    encode_events,
    make_request,
    read_failure,
    read_reply,
)
from tests.faults.hostile.model_server import call_delta, hang_after_text, send_endless_data
from tests.support.servers.model_server import ModelServer, Reply

pytestmark = IGNORE_ABANDONED_GENERATORS


def read_truncated_reply(server: ModelServer, model: OpenAIModel) -> tuple[str, ModelReply]:
    """Return the text and the reply of one truncated answer."""
    text, result = read_reply(model.stream(make_request("hello", TOOL)))
    assert result.finish_reason == "length"
    assert result.limit != ""
    assert len(server.requests) == 1
    return text, result


def test_a_text_without_end_is_truncated_while_it_is_streamed(
    server: ModelServer, model: OpenAIModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assembly, "MAX_TEXT_BYTES", 1001)
    hang_after_text(server, 100, "ü" * 20)
    text, result = read_truncated_reply(server, model)
    assert text == "ü" * 500
    assert result.limit == "1001 bytes of text"
    assert result.tokens_out == 251
    server.wait_for(all_disconnected)


@pytest.mark.parametrize("far", [0, 10**9, -(10**9)])
def test_calls_without_end_are_truncated(server: ModelServer, model: OpenAIModel, far: int) -> None:
    send_endless_data(server, *(call_delta(far + index) for index in range(500)))
    _, result = read_truncated_reply(server, model)
    assert len(result.calls) == assembly.MAX_REPLY_CALLS
    assert {requested.arguments for requested in result.calls} == {"{}"}


@pytest.mark.parametrize("chunk", [delta(), delta(content=""), call_delta(0, ""), {}], ids=str)
def test_empty_chunks_without_end_are_truncated(
    server: ModelServer, model: OpenAIModel, chunk: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assembly, "MAX_REPLY_CHUNKS", 100)
    send_endless_data(server, *[chunk] * 200)
    assert read_truncated_reply(server, model)[0] == ""


def test_an_answer_that_takes_too_long_is_truncated(
    server: ModelServer, model: OpenAIModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assembly, "MAX_STREAM_SECONDS", 2.0)
    hang_after_text(server, 2, "word ")
    assert read_truncated_reply(server, model)[1].limit == "2 seconds"
    server.wait_for(all_disconnected)


@pytest.mark.parametrize("long", [b"data: " + b"x" * 5000, b": " + b"x" * 5000, b"data: x\n" * 800])
def test_an_event_without_end_is_refused(
    server: ModelServer, model: OpenAIModel, long: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sse, "MAX_EVENT_BYTES", 4000)
    server.script(lambda request: Reply(garbage=long))
    _, error = read_failure(model.stream(make_request()))
    assert (error.code, error.retryable) == ("too_long", False)
    assert "more than 4000 bytes" in str(error)


def test_only_the_beginning_of_an_error_is_read(server: ModelServer, model: OpenAIModel) -> None:
    server.script(lambda request: Reply(status=400, text="beginning" + "x" * 1_000_000))
    _, error = read_failure(model.stream(make_request()))
    assert "beginning" in str(error)
    assert '{"error"' in str(error), "the client reads the body to its end"
    assert len(error.message) <= 400


def read_compressed(body: bytes, encoding: str, piece: int) -> list[Any]:
    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(body), piece):
            yield body[start : start + piece]

    async def read() -> list[Any]:
        return [chunk async for chunk in sse.iter_chunks(pieces(), encoding)]

    return asyncio.run(read())


@pytest.mark.parametrize("piece", [1, 1000])
@pytest.mark.parametrize(("encoding", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
def test_a_compressed_stream_is_read(encoding: str, pack: Callable[[bytes], bytes], piece: int) -> None:
    chunk = delta("stop", content="one")
    assert read_compressed(pack(encode_events(chunk)), encoding, piece) == [chunk, None]


@pytest.mark.parametrize(("encoding", "pack"), [("gzip", gzip.compress), ("", bytes)])
def test_a_stream_is_read_up_to_a_limit(
    encoding: str, pack: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sse, "MAX_REPLY_BYTES", 1_000_000)
    with pytest.raises(ModelError) as failed:
        read_compressed(pack(b": x\n" * 1_000_000), encoding, 10_000)
    assert failed.value.code == "too_long"
