"""Recorded chat completions of real providers, read by the client over HTTP and in pieces of every size."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from roboco.model.openai_model import OpenAIModel
from roboco.model.reply_assembly import MAX_REASONING_CHARS
from roboco.model.sse import iter_chunks
from tests.contract.model.model_calls import make_request, read_failure, read_reply
from tests.contract.model.recordings import FOLDER, Recording, recordings
from tests.support.servers.model_server import ModelServer, Reply

STREAMS = recordings("chat")

pytestmark = pytest.mark.skipif(not STREAMS, reason=f"there are no recordings in {FOLDER.name}")


def tokens(usage: dict[str, Any]) -> tuple[int, int]:
    reasoning = (usage.get("completion_tokens_details") or {}).get("reasoning_tokens") or 0
    tokens_in, tokens_out = usage.get("prompt_tokens", 0), usage.get("completion_tokens", 0)
    beside = reasoning and usage.get("total_tokens") == tokens_in + tokens_out + reasoning
    return tokens_in, tokens_out + (reasoning if beside else 0)


@pytest.mark.parametrize("recording", [one for one in STREAMS if not one.has_error], ids=lambda one: one.path.stem)
def test_a_recorded_stream_is_read_right(server: ModelServer, model: OpenAIModel, recording: Recording) -> None:
    server.script(lambda request: Reply(garbage=recording.body))
    text, reply = read_reply(model.stream(make_request()))
    expected = recording.expected()
    assert text == expected["text"]
    assert reply.reasoning == expected["reasoning"][:MAX_REASONING_CHARS]
    assert [(call.name, call.arguments) for call in reply.calls] == expected["calls"]
    assert reply.finish_reason == (expected["finish"] or ("tool_calls" if expected["calls"] else "stop"))
    if any(tokens(expected["usage"])):
        assert (reply.tokens_in, reply.tokens_out) == tokens(expected["usage"])
        assert not reply.usage.estimated
    assert len(server.requests) == 1


@pytest.mark.parametrize("recording", [one for one in STREAMS if one.has_error], ids=lambda one: one.path.stem)
def test_a_recorded_error_within_a_stream_is_asked_again(
    server: ModelServer, model: OpenAIModel, recording: Recording
) -> None:
    server.fail_next(1, Reply(garbage=recording.body))
    stream = model.stream(make_request())
    if published := recording.expected()["text"]:
        text, error = read_failure(stream)
        assert (text, error.code, error.retryable) == (published, "malformed_call", True)
        return
    text, reply = read_reply(stream)
    assert text.startswith("echo: Your last answer could not be used: Tool call validation failed")
    assert (reply.reprompts, reply.usage.estimated) == (1, True)


@pytest.mark.parametrize("size", [1, 2, 3, 7])
@pytest.mark.parametrize("recording", STREAMS, ids=lambda one: one.path.stem)
def test_a_recorded_stream_is_the_same_in_pieces_of_any_size(recording: Recording, size: int) -> None:
    body = b"\xef\xbb\xbf" + recording.body
    assert asyncio.run(read_in_pieces(body, size)) == asyncio.run(read_in_pieces(recording.body, len(recording.body)))


async def read_in_pieces(body: bytes, size: int) -> list[Any]:
    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(body), size):
            yield body[start : start + size]

    return [chunk async for chunk in iter_chunks(pieces())]
