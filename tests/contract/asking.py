"""Asking a model, and what comes of it."""

import json
from typing import Any

import pytest

from roboco.domain.team.model_profile import ModelProfile
from roboco.errors import ModelError
from roboco.ports.model import ModelStream
from roboco.ports.model import Reply as Ended
from roboco.ports.model import Request as Asked
from tests.support.servers.model_server import RequestRecord

KEY = "sk-secret-0123456789"
"""What OPENAI_API_KEY holds."""
TOOL = {"type": "function", "function": {"name": "add", "description": "adds", "parameters": {"type": "object"}}}
LEFT_BEHIND = pytest.mark.filterwarnings(
    "ignore:Exception ignored in. <async_generator:pytest.PytestUnraisableExceptionWarning"
)
"""Garbage collection in one thread may meet an asynchronous generator that the loop's thread is just leaving."""
NOTHING = b": a comment, as the end of a stream\n\n"


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


def gone(records: list[RequestRecord]) -> bool:
    """Whether the server saw all clients disconnect."""
    return bool(records) and all(record.client_disconnected_at for record in records)
