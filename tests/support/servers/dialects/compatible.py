"""Servers that speak OpenAI's protocol, with parameters, fields and models of their own."""

import base64
import hashlib
from collections.abc import Iterator

from roboco.lab.servers.chat_protocol import ChatRequest, Json
from tests.support.servers.dialects.openai import OpenAIDialect


class CompatibleDialect(OpenAIDialect):
    """Ignores unknown parameters and fields, as most servers do, and knows no limits of OpenAI's models."""

    def check_unknown(self, unknown: list[tuple[str | int, ...]], body: Json) -> None:
        """Refuse no unknown parameter."""

    def check_model(self, body: Json) -> None:
        """Refuse nothing that OpenAI's models refuse."""


def call_messages(request: ChatRequest) -> Iterator[tuple[int, Json]]:
    """Yield the assistant messages with calls after the last user message, with their places."""
    last = max((n for n, message in enumerate(request.messages) if message["role"] == "user"), default=0)
    for n, message in enumerate(request.messages):
        if n > last and message.get("tool_calls"):
            yield n, message


def signature(*parts: str) -> str:
    """Return a signature that the server recognizes when it is returned."""
    return base64.b64encode(hashlib.sha256("/".join(parts).encode()).digest()).decode()
