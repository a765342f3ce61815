"""A model server that means harm: answers without an end, in every part that an answer has."""

import json
from typing import Any

from tests.contract.asking import delta
from tests.support.servers.model_server import ModelServer, Reply


def send_endless_data(server: ModelServer, *chunks: Any) -> None:
    """Have the server send the chunks, and then neither more nor an end."""
    data = b"".join(b"data: %s\n\n" % json.dumps(chunk).encode() for chunk in chunks)
    server.script(lambda request: Reply(chunks=[], garbage=data + b"data: " + b"x" * 100))


def call_delta(index: int | None, arguments: str = "{}", **more: Any) -> dict[str, Any]:
    """A piece of a call in the delta of a chunk."""
    return delta(tool_calls=[{"index": index, "function": {"name": "add", "arguments": arguments}} | more])


def hang_after_text(server: ModelServer, count: int, text: str) -> None:
    """Have the server send a text so many times, and then hold the connection."""
    server.script(lambda request: Reply(chunks=[text] * count, hang_after=count))
