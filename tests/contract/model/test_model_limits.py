"""Answers without end: the client truncates them at a limit while they are streamed, and closes the connection."""

import asyncio
import gzip
import json
import zlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from roboco.errors import ModelError
from roboco.model import reply_assembly as assembly
from roboco.model import sse
from roboco.model.openai_model import OpenAIModel, _ModelCall
from roboco.ports.model import Listener
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


def test_arguments_without_end_are_truncated(
    server: ModelServer, model: OpenAIModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assembly, "MAX_ARGUMENT_CHARS", 1000)
    send_endless_data(server, call_delta(0, '{"a": "'), *[call_delta(1, "x" * 50)] * 30)
    _, result = read_truncated_reply(server, model)
    assert sum(len(requested.arguments) for requested in result.calls) == 1000


@pytest.mark.parametrize("far", [0, 10**9, -(10**9)])
def test_calls_without_end_are_truncated(server: ModelServer, model: OpenAIModel, far: int) -> None:
    send_endless_data(server, *(call_delta(far + index) for index in range(500)))
    _, result = read_truncated_reply(server, model)
    assert len(result.calls) == assembly.MAX_REPLY_CALLS
    assert {requested.arguments for requested in result.calls} == {"{}"}


def test_new_ids_without_end_are_truncated(server: ModelServer, model: OpenAIModel) -> None:
    send_endless_data(server, *(call_delta(None, id=f"c{number}") for number in range(500)))
    assert len(read_truncated_reply(server, model)[1].calls) == assembly.MAX_REPLY_CALLS


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


def test_chunks_after_a_whole_reply_do_not_postpone_its_end(model: OpenAIModel) -> None:
    assert len(asyncio.run(ends_after(model, lambda _: None))) == 1


def test_text_after_a_finish_reason_is_read_to_its_end(model: OpenAIModel) -> None:
    """Some servers mark each chunk as the last one: https://github.com/su-kaka/gcli2api/issues/403."""
    assert len(asyncio.run(ends_after(model, lambda reply: reply.add_text("word ")))) == 3


async def ends_after(model: OpenAIModel, more: Callable[[assembly.ReplyAssembly], object]) -> set[float | None]:
    """Return the times at which a reply with a finish reason ends, as of each of three chunks."""
    request, reply, found = make_request(), assembly.ReplyAssembly("m"), set[float | None]()
    texts: list[str] = []
    reply.finish("stop")
    async with asyncio.timeout(100) as limit:
        output = _ModelCall(model, request, Listener(texts.append))._output(request, reply, texts.append, limit)
        for _ in range(3):
            more(reply)
            output.heard()
            found.add(limit.when())
            await asyncio.sleep(0.01)
    return found


def test_long_names_are_truncated(server: ModelServer, model: OpenAIModel) -> None:
    chunk = delta("r" * 5000, tool_calls=[{"index": 0, "function": {"name": "n" * 5000}}]) | {"model": "m" * 5000}
    send_endless_data(server, *[chunk] * 3)
    server.script(lambda request: Reply(garbage=b"data: %s\n\ndata: [DONE]\n\n" % json.dumps(chunk).encode()))
    _, result = read_reply(model.stream(make_request("hello", TOOL)))
    assert {len(result.model), len(result.finish_reason), len(result.calls[0].name)} == {assembly.MAX_NAME_CHARS}


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


def test_a_compressed_error_is_read(server: ModelServer, model: OpenAIModel) -> None:
    """The client asks for no compression, and some servers compress all the same."""
    packed = gzip.compress(b'{"error": {"message": "unpacked"}}')
    server.script(lambda request: Reply(status=400, garbage=packed, headers={"Content-Encoding": "gzip"}))
    _, error = read_failure(model.stream(make_request()))
    assert "unpacked" in str(error)
    assert server.requests[0].request.headers["accept-encoding"] == "identity"


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


def test_an_encoding_that_was_not_asked_for_is_named() -> None:
    with pytest.raises(ModelError, match="'br'"):
        read_compressed(b"x", "br", 1)
