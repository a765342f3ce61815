"""Calls of a model: requests, replies and failures, and the chunks that a server sends."""

import json
from typing import Any

import pytest

from roboco.domain.team.model_profile import ModelProfile
from roboco.errors import ModelError
from roboco.model.openai_model import OpenAIModel
from roboco.ports.model import ModelStream
from roboco.ports.model import Reply as ModelReply
from roboco.ports.model import Request as ModelRequest
from tests.support.servers.model_server import RequestRecord
from tests.support.stack import until

API_KEY = "sk-secret-0123456789"
"""The value of OPENAI_API_KEY."""
TOOL = {
    "type": "function",
    "function": {"name": "add", "description": "adds", "parameters": {"type": "object", "properties": {}}},
}
IGNORE_ABANDONED_GENERATORS = pytest.mark.filterwarnings(
    "ignore:Exception ignored in. <async_generator:pytest.PytestUnraisableExceptionWarning"
)
"""Garbage collection in one thread may find an asynchronous generator that the loop's thread is leaving."""
CLOSE_TIMEOUT = 60
"""Seconds that closing a model may take."""


def make_request(text: str = "hello", *tools: dict[str, Any], **profile: Any) -> ModelRequest:
    """Return a request with this user message."""
    messages = ({"role": "system", "content": "be short"}, {"role": "user", "content": text})
    return ModelRequest(ModelProfile(**({"model": "m"} | profile)), messages, tools)


def read_reply(stream: ModelStream) -> tuple[str, ModelReply]:
    """Return the whole text, and the reply that ends the stream."""
    *texts, result = stream
    assert isinstance(result, ModelReply)
    assert all(isinstance(text, str) and text for text in texts)
    return "".join(map(str, texts)), result


def read_failure(stream: ModelStream) -> tuple[str, ModelError]:
    """Return the text that was streamed, and the error that ended the stream."""
    texts: list[str] = []
    with pytest.raises(ModelError) as failed:
        texts.extend(map(str, stream))
    return "".join(texts), failed.value


def encode_events(*chunks: Any) -> bytes:
    """Return the chunks as server-sent events, with the end of the stream."""
    return b"".join(b"data: %s\n\n" % json.dumps(chunk).encode() for chunk in chunks) + b"data: [DONE]\n\n"


def delta(finish_reason: str | None = None, **fields: Any) -> dict[str, Any]:
    """Return one chunk of a stream."""
    return {"model": "m", "choices": [{"index": 0, "delta": fields, "finish_reason": finish_reason}]}


def all_disconnected(records: list[RequestRecord]) -> bool:
    """Return True if the server has requests, and the clients of all have disconnected."""
    return bool(records) and all(record.client_disconnected_at for record in records)


def close_model(model: OpenAIModel) -> None:
    """Close the model's connections and end its loop."""
    assert model._loop.submit(model.close()).ended.wait(CLOSE_TIMEOUT)
    loop = model._loop._loop
    assert loop is not None
    loop.call_soon_threadsafe(loop.stop)
    until(lambda: not loop.is_running(), CLOSE_TIMEOUT, "the loop has ended")
    loop.close()
