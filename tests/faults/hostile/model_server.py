"""A hostile model server: answers without an end, in every part of an answer."""

import json
from typing import Any

from tests.contract.model.model_calls import delta
from tests.support.servers.model_server import ModelServer, Reply


def send_endless_data(server: ModelServer, *chunks: Any) -> None:
    """Let the server send the chunks, and then an event without an end."""
    data = b"".join(b"data: %s\n\n" % json.dumps(chunk).encode() for chunk in chunks)
    server.script(lambda request: Reply(chunks=[], garbage=data + b"data: " + b"x" * 100))


def call_delta(index: int | None, arguments: str = "{}", **more: Any) -> dict[str, Any]:
    """Return a chunk's delta with a piece of a call."""
    return delta(tool_calls=[{"index": index, "function": {"name": "add", "arguments": arguments}} | more])


def hang_after_text(server: ModelServer, count: int, text: str) -> None:
    """Let the server send a text `count` times, and then hang."""
    server.script(lambda request: Reply(chunks=[text] * count, hang_after=count))
